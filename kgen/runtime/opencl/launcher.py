"""Kernels of an OpenCL program for one launch at a time, and completed events."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import pyopencl as cl

__all__ = ["Launcher"]

#: The maximum number of settled events that a launcher remembers.
N_SETTLED: Final = 16


class Launcher:
    """The kernels of a program, used by one launch at a time, and their last parameters.

    A call takes a launcher from a list and puts it back after the launch, which is cheaper than a
    lock. Concurrent calls have separate launchers; a call that fails does not put its own back.

    It remembers events that precede all later commands of its queue. The commands of an in-order
    queue run one after the other, so events that earlier commands waited for, or produced, need
    not be waited for again, which would cost more than the launch. Wrappers store state of one
    array or function in additional attributes.
    """

    def __init__(self, **own: Any) -> None:
        self.__dict__.update(own)
        #: the queue of the last launch, if it is in-order; else nothing is settled
        self.queue: cl.CommandQueue | None = None
        #: the event of the last launch
        self.last: cl.Event | None = None
        #: the events of some launches before
        self.recent: deque[cl.Event] = deque(maxlen=N_SETTLED)
        #: some that launches have waited for, by identity
        self.waited_for: dict[int, cl.Event] = {}

    def has_settled(self, events: list[cl.Event]) -> bool:
        """Tell whether all *events* precede the next launch in the queue."""
        for event in events:
            if id(event) not in self.waited_for:
                for known in reversed(self.recent):
                    if known is event:
                        break
                else:
                    return False
        return True

    def wait(self, queue: cl.CommandQueue, events: list[cl.Event]) -> list[cl.Event]:
        """Return *events*; they are settled after the launch that waits for them in *queue*."""
        if queue is not self.queue:
            out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
            self.queue = None if queue.properties & out_of_order else queue
            self.recent.clear()
            self.waited_for.clear()
        elif len(self.waited_for) > N_SETTLED:
            self.waited_for.clear()
        self.waited_for.update((id(event), event) for event in events)
        return events
