"""The arguments that a call passes to a ready kernel, in memory that kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kgen.ready.arguments import bind
from kgen.ready.libraries import native
from kgen.ready.places import Place, find_place
from kgen.ready.snippet import Signature

__all__ = ["Passed", "read_call"]


class Passed(NamedTuple):
    """The arguments of a call by name, and where it runs; ``first`` is an array as it was passed.

    The arrays ``given`` are numpy's, pyopencl's or pycuda's.
    """

    given: dict[str, Any]
    place: Place
    first: Any


def read_call(signature: Signature, args: Sequence[Any], queue: Any, stream: Any) -> Passed:
    """Read the arguments of a call."""
    names = [one.name for one in signature.arrays]
    bound = bind(signature.kernel, signature.arguments, args)
    given = native(signature.kernel, bound, names, stream)
    place = find_place(signature.kernel, (given[name] for name in names), queue)
    return Passed(given, place, bound[names[0]])
