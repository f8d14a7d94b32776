"""Calls of device kernels with numpy arrays: copies to the device, and of results back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.runtime.arguments import Contract
from kgen.runtime.refusals import CallChecker, reject_masked, reject_read_only

__all__ = ["Transfers", "call_through_host"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Transfers:
    """How arrays get to a device and back.

    ``download`` fills the numpy array that it gets, or makes one. ``wait`` returns when an
    event has happened.
    """

    array_class: type
    #: What is on the device as well, though it says nothing of where results should be.
    others: tuple[type, ...] = ()
    upload: Callable[[str, Array], Any]
    download: Callable[[Any, Array | None], Array]
    wait: Callable[[Any], Any]


def call_through_host(
    transfers: Transfers,
    contract: Contract,
    call: Callable[[Mapping[str, Any]], Any],
    arguments: dict[str, Any],
    *,
    out_host: bool | None,
    no_numpy: bool,
) -> Any:
    """Copy numpy arrays to the device, *call*, and copy what was written back.

    An output that is passed is copied to the device as well: the kernel may leave a part of
    it as it is.
    """
    refuse = CallChecker(contract).refuse
    given = {arg.name: arguments[arg.name] for arg in contract.arrays}
    on_host = [text for text, array in given.items() if isinstance(array, np.ndarray)]
    on_device = [t for t, array in given.items() if isinstance(array, transfers.array_class)]
    for text, array in given.items():
        is_known = text in on_host or text in on_device or isinstance(array, transfers.others)
        if array is not None and not is_known:
            wanted = f"{transfers.array_class.__module__}.{transfers.array_class.__name__}"
            refuse(
                f"argument '{text}' is a {type(array).__module__}.{type(array).__name__}",
                hint=f"pass a {wanted} or a numpy array",
            )
    reject_masked(refuse, **given)
    if on_host and no_numpy:
        refuse(
            f"argument '{on_host[0]}' is a numpy array, and the option no_numpy refuses those",
            hint=f"copy '{on_host[0]}' to the device, or set_options(knl, no_numpy=False)",
        )
    names = [arg.name for arg in contract.outputs]
    filled = set() if out_host is False else set(on_host)
    for text in names:
        if text in filled and not given[text].flags.writeable:
            reject_read_only(refuse, text)
    if out_host is None:
        out_host = bool(on_host) and not on_device
    uploaded = {text: transfers.upload(text, given[text]) for text in on_host}
    event, outputs = call({**arguments, **uploaded})
    transfers.wait(event)
    results = outputs if isinstance(outputs, dict) else dict(zip(names, outputs, strict=True))
    for text in names:
        if text in filled:
            results[text] = transfers.download(results[text], given[text])
        elif out_host:
            results[text] = transfers.download(results[text], None)
    return event, results if isinstance(outputs, dict) else tuple(results[t] for t in names)
