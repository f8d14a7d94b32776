"""Reserved names in isl sets, which users cannot choose: ``.gid0``, ``.element1``, ``k.a``."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["PAIR", "SetName", "Side"]


class SetName(StrEnum):
    """The meaning of a dimension or parameter of a set that is not a variable of a kernel.

    >>> SetName.ELEMENT.at(1), SetName.ELEMENT.names("element1"), SetName.GROUP.number(".gid2")
    ('.element1', False, 2)
    """

    #: the index along a hardware axis
    GROUP = ".gid"
    ITEM = ".lid"
    #: a subscript of an access, and a number whose digits are subscripts
    ELEMENT = ".element"
    NUMBER = ".number"
    #: the value that an instance reads, or is set to
    VALUE = ".value"
    #: the lowest point of a loop
    LEAST = ".least"
    #: the sub-group that a work-item is in, and a local axis that an instruction does not use
    SUBGROUP = ".subgroup"
    UNUSED = ".l"
    #: the warp of a work-item, and the piece of global memory that an access is to
    WARP = ".warp"
    SECTOR = ".sector"
    #: loops of a nest, those around it, and dimensions that are bound to axes
    LOOP = ".x"
    OUTER = ".o"
    TIED = ".y"

    def at(self, number: int) -> str:
        """Return the name with a number."""
        return self + str(number)

    def names(self, name: str) -> bool:
        """Tell whether *name* is of this kind, possibly on one side."""
        return name.startswith(self)

    def number(self, name: str) -> int:
        """Return the number in a name of this kind."""
        return int(name.removeprefix(self))


class Side(StrEnum):
    """The instance that a name belongs to, in a set that relates two instances.

    >>> Side.FIRST.of("k"), Side.SECOND.of(SetName.ITEM.at(0))
    ('k.a', '.lid0.b')
    """

    FIRST = ".a"
    BETWEEN = ".m"
    SECOND = ".b"
    WRITER = ".w"

    def of(self, name: str) -> str:
        """Return the name on this side."""
        return name + self


#: The sides of a relation between two instances.
PAIR = (Side.FIRST, Side.SECOND)
