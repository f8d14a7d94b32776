"""Random kernels that mean one thing only.

Every element that two instances touch, one of them writing, is ordered by a dependency or is
a sum. So no order of the loops, and no correct transformation, may change a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.random import choices
from tests.random.choices import Draw
from tests.random.loops import (
    Loop,
    draw_domains,
    draw_loop,
    growing_loop,
    rectangle,
    tile_loop,
)
from tests.random.program import ArrayDecl, Linear, Program

__all__ = [
    "Kernel",
    "draw_fetch_kernel",
    "draw_global_kernel",
    "draw_kernel",
    "draw_local_kernel",
    "draw_saving_kernel",
    "draw_scan_kernel",
]

Path = tuple[Loop, ...]


@dataclass(frozen=True)
class Index:
    """One subscript; ``iname`` when it is an injective function of one loop variable."""

    text: str
    size: Linear
    iname: str | None = None


@dataclass(frozen=True)
class Access:
    """One place that a statement reads or writes."""

    array: str
    indices: tuple[Index, ...] = ()

    def __str__(self) -> str:
        inside = ", ".join(index.text for index in self.indices)
        return f"{self.array}[{inside}]" if self.indices else self.array


@dataclass
class Array:
    """An argument or temporary; ``shape`` grows with the accesses."""

    name: str
    is_int: bool
    shape: tuple[Linear, ...]
    #: the loops around all users of a temporary
    home: Path | None = None
    space: str = "global"
    values: range = range(-4, 5)

    @property
    def dtype(self) -> str:
        """The numpy name of its type."""
        return "int32" if self.is_int else "float32"


@dataclass
class Statement:
    """One instruction and what it touches."""

    id: str
    path: Path
    text: str
    write: Access
    reads: list[Access]
    conditions: tuple[str, ...] = ()
    deps: list[str] = field(default_factory=list)

    def touches(self, array: str) -> bool:
        """Tell whether it reads or writes an array."""
        return array == self.write.array or any(array == read.array for read in self.reads)


@dataclass(frozen=True)
class Rule:
    """A substitution rule; the subscripts of what it reads name its arguments.

    One without arguments may name loops around its uses.
    """

    name: str
    arguments: tuple[str, ...]
    text: str
    reads: tuple[Access, ...]
    is_int: bool
    loops: frozenset[str] = frozenset()
    #: whether one without arguments is written ``rule()``
    is_called: bool = True

    @property
    def _is_bare(self) -> bool:
        return not self.arguments and not self.is_called

    def __str__(self) -> str:
        head = self.name if self._is_bare else f"{self.name}({', '.join(self.arguments)})"
        return f"{head} := {self.text}"

    def use(self, given: Iterable[str]) -> str:
        """Write a use of it."""
        return self.name if self._is_bare else f"{self.name}({', '.join(given)})"


#: What operands are: results of earlier statements, inputs, loop variables, constants, ``n``;
#: or uses of rules.
_LEAVES = "eeeeaaaicn"
_INPUTS = "aaaicn"
_FETCHED_LEAVES = "eaaaaffic"

#: Subscripts: those that differ wherever a loop does, constants, quotients, remainders, and data.
_SUBSCRIPTS = "oooocdxp"
_FETCHED_SUBSCRIPTS = "oooooooocddxxp"

_OPERATIONS = ("leaf", "sum", "sum", "scale", "min", "if", "//", "%", "abs")


class Kernel:
    """A kernel in the making."""

    def __init__(self, draw: Draw, leaves: str = _LEAVES, subscripts: str = _SUBSCRIPTS) -> None:
        self.draw = draw
        self.leaves = leaves
        self.subscripts = subscripts
        self.rules: list[Rule] = []
        self.loops: list[Loop] = []
        self.reductions: list[Loop] = []
        self.arrays: dict[str, Array] = {}
        self.statements: list[Statement] = []
        #: global barriers, by the number of statements before them
        self.barriers: dict[int, str] = {}
        #: temporaries that are used behind the next barrier: their loops, whether they are integers
        self.waiting: list[tuple[Path, Access, bool]] = []

    # -- subscripts -----------------------------------------------------------------------

    def own_index(self, loop: Loop) -> Index:
        """Draw a subscript that differs wherever *loop* does."""
        start = f"{loop.name} + {-loop.low}" if loop.low else loop.name
        start = start.replace("+ -", "- ")
        choice = self.draw(choices.sampled_from("ppprs"))
        if choice == "r":
            return Index(f"{loop.high + -1} - {loop.name}", loop.extent, loop.name)
        if choice == "s":
            return Index(f"2*({start})", loop.extent + loop.extent, loop.name)
        shift = self.draw(choices.sampled_from((0, 0, 1)))
        text = f"{start} + {shift}" if shift else start
        return Index(text, loop.extent + shift, loop.name)

    def any_index(self, loops: Sequence[Loop]) -> Index:
        """Draw a subscript whose bounds are known."""
        choice = self.draw(choices.sampled_from(self.subscripts)) if loops else "c"
        if choice == "c":
            at = self.draw(choices.integers(0, 3))
            return Index(str(at), Linear(c=at + 1))
        loop = self.draw(choices.sampled_from(loops))
        factor = self.draw(choices.integers(2, 4))
        if choice == "d":
            return Index(f"({loop.name} + {-loop.low}) // {factor}", loop.extent)
        if choice == "x":
            return Index(f"{loop.name} % {factor}", Linear(c=factor))
        index = self.own_index(loop)
        if choice == "p":  # data-dependent
            table = self.arrays.setdefault("p", Array("p", True, (Linear(),), values=range(4)))
            table.shape = (table.shape[0].largest(index.size),)
            return Index(f"p[{index.text}]", Linear(c=4))
        return index

    def inside(self, loops: Sequence[Loop], size: int) -> Index:
        """Draw a subscript of an axis whose length is fixed."""
        fitting = [x for x in loops if x.extent.c <= size]
        if fitting and self.draw(choices.booleans()):
            loop = self.draw(choices.sampled_from(fitting))
            text = f"{loop.name} + {-loop.low}".replace("+ -", "- ")
            return Index(text, Linear(c=size), loop.name)
        return Index(str(self.draw(choices.integers(0, size - 1))), Linear(c=size))

    def input_access(self, loops: Sequence[Loop], is_int: bool) -> Access:
        """Draw a read of an array that nobody writes."""
        naxes = self.draw(choices.integers(1, 2 if len(loops) > 1 else 1))
        indices = tuple(self.any_index(loops) for _ in range(naxes))
        return self.grown(self.input_at(indices, is_int))

    def new_rule(self, loops: Sequence[Loop], is_int: bool) -> Rule:
        """Draw a rule that reads inputs, near to where its arguments point, or in these loops."""
        draw = self.draw
        arguments = ("x", "y")[: draw(choices.sampled_from((1, 2, 1, 2, 0)))]
        if not arguments:
            return self.rule_without_arguments(loops, is_int)
        reads, terms = list[Access](), list[str]()
        for _ in range(draw(choices.integers(1, 2))):
            indices = []
            for argument in draw(choices.permutations(arguments)):
                shift = draw(choices.integers(0, 2))
                text = f"{argument} + {shift}" if shift else argument
                indices.append(Index(text, Linear(c=shift), argument))
            reads.append(self.input_at(tuple(indices), is_int))
            terms.append(f"{draw(choices.integers(1, 2))}*{reads[-1]}")
        if draw(choices.booleans()):
            terms.append(arguments[0])
        rule = Rule(f"rule{len(self.rules)}", arguments, " - ".join(terms), tuple(reads), is_int)
        self.rules.append(rule)
        return rule

    def rule_without_arguments(self, loops: Sequence[Loop], is_int: bool) -> Rule:
        """Draw a rule that stands for the same in all its uses, or follows the loops around."""
        draw = self.draw
        inside = loops if draw(choices.booleans()) else ()
        reads = [self.input_access(inside, is_int) for _ in range(draw(choices.integers(1, 2)))]
        text = " - ".join(f"{draw(choices.integers(1, 2))}*{read}" for read in reads)
        named = frozenset(x.name for x in inside if re.search(rf"\b{x.name}\b", text))
        name, is_called = f"rule{len(self.rules)}", draw(choices.booleans())
        self.rules.append(Rule(name, (), text, (), is_int, named, is_called))
        return self.rules[-1]

    def use_of_rule(self, loops: Sequence[Loop], is_int: bool) -> str:
        """Draw a use of a rule, perhaps of a new one."""
        around = {loop.name for loop in loops}
        known = [r for r in self.rules if (r.is_int or not is_int) and r.loops <= around]
        again = known and self.draw(choices.integers(0, 2))
        rule = self.draw(choices.sampled_from(known)) if again else self.new_rule(loops, is_int)
        given = {argument: self.any_index(loops) for argument in rule.arguments}
        for read in rule.reads:
            indices = tuple(
                Index(i.text, given[i.iname].size + i.size.c) for i in read.indices if i.iname
            )
            self.grown(Access(read.array, indices))
        return rule.use(index.text for index in given.values())

    def input_at(self, indices: tuple[Index, ...], is_int: bool) -> Access:
        """Choose an array that nobody writes."""
        name = f"{'k' if is_int else 'a'}{len(indices)}{self.draw(choices.sampled_from('uv'))}"
        self.arrays.setdefault(name, Array(name, is_int, (Linear(),) * len(indices)))
        return Access(name, indices)

    def grown(self, access: Access) -> Access:
        """Make the array large enough for an access."""
        array = self.arrays[access.array]
        pairs = zip(array.shape, access.indices, strict=True)
        array.shape = tuple(size.largest(index.size) for size, index in pairs)
        return access

    # -- what keeps a kernel well-defined ---------------------------------------------------

    def fits(self, other: Path, theirs: Access, path: Path, ours: Access) -> bool:
        """Tell whether iterations of the loops that both share touch different elements."""
        home = self.arrays[ours.array].home or ()
        common = {x.name for x in path if x in other and x not in home}
        pairs = list(zip(theirs.indices, ours.indices, strict=True))
        return all(
            any(a.iname == name == b.iname and a.text == b.text for a, b in pairs)
            for name in common
        )

    def writers(self, array: str) -> list[Statement]:
        """Return the statements so far that write an array."""
        return [s for s in self.statements if s.write.array == array]

    def may_read(self, path: Path, access: Access) -> bool:
        """Tell whether an element may be read in loops *path* after all that was written."""
        writers = self.writers(access.array)
        return all(self.fits(s.path, s.write, path, access) for s in writers)

    def may_write(self, path: Path, access: Access, reads: Sequence[Access]) -> bool:
        """Tell whether an element may be written again, in loops *path*."""
        if {loop.name for loop in path} != {index.iname for index in access.indices}:
            return False
        users = [(path, read) for read in reads]
        for s in self.statements:
            users += [(s.path, other) for other in (s.write, *s.reads)]
        same = [(other, theirs) for other, theirs in users if theirs.array == access.array]
        return all(self.fits(other, theirs, path, access) for other, theirs in same)

    def add(
        self,
        path: Path,
        write: Access,
        text: str,
        reads: Sequence[Access],
        declare: str = "",
        *,
        is_always: bool = False,
    ) -> None:
        """Add ``write = text``, ordered after all that it conflicts with."""
        more = list(reads)
        is_always = is_always or bool(declare) or write.array in self._unset()
        conditions = () if is_always else self.conditions(path, more)
        text = f"{declare}{write} = {text}"
        name = f"s{len(self.statements)}"
        new = Statement(name, path, text, write, more, conditions)
        new.deps = [
            s.id for s in self.statements if s.touches(write.array) or new.touches(s.write.array)
        ]
        new.deps += self.barriers.values()
        self.statements.append(new)

    def add_barrier(self) -> None:
        """Let all work-items of the device wait."""
        self.barriers[len(self.statements)] = f"wait{len(self.barriers)}"
        waiting, self.waiting = self.waiting, []
        for path, write, is_int in waiting:
            self.use(path, write, is_int)

    def _unset(self) -> list[str]:
        """Return the temporaries that have no value yet."""
        return [n for n, a in self.arrays.items() if a.home is not None and not self.writers(n)]

    # -- expressions ------------------------------------------------------------------------

    def earlier_access(self, path: Path, loops: Path, is_int: bool) -> Access | None:
        """Draw a read of something written before, where its writers allow one."""
        written = dict.fromkeys(s.write.array for s in self.statements)
        names = [n for n in written if self.arrays[n].is_int or not is_int]
        if not names:
            return None
        array = self.arrays[self.draw(choices.sampled_from(names))]
        if array.home is not None:
            if path[: len(array.home)] != array.home:
                return None
            free = [x for x in loops if x.is_constant and x not in array.home]
            access = Access(array.name, tuple(self.inside(free, size.c) for size in array.shape))
        else:
            shared = {loop.name for loop in path}
            first = self.writers(array.name)[0].write
            access = Access(
                array.name,
                tuple(i if i.iname in shared else self.any_index(loops) for i in first.indices),
            )
        return self.grown(access) if self.may_read(path, access) else None

    def leaf(self, path: Path, loops: Path, is_int: bool, reads: list[Access]) -> str:
        """Draw an operand; *reads* gets what it reads."""
        draw = self.draw
        kind = draw(choices.sampled_from(self.leaves))
        access = self.earlier_access(path, loops, is_int) if kind == "e" else None
        if access is None and kind in "ea":
            access = self.input_access(loops, is_int or draw(choices.integers(0, 3)) == 0)
        if access is not None:
            reads.append(access)
            return str(access)
        if kind == "f":
            return self.use_of_rule(loops, is_int)
        if kind == "i" and loops:
            return str(draw(choices.sampled_from(loops)).name)
        return "n" if kind == "n" else str(draw(choices.integers(1, 4)))

    def expression(
        self, path: Path, loops: Path, is_int: bool, depth: int, reads: list[Access]
    ) -> str:
        """Draw an expression over *loops*; *reads* gets what it reads."""

        def more(is_int: bool = is_int) -> str:
            return self.expression(path, loops, is_int, depth - 1, reads)

        draw = self.draw
        match draw(choices.sampled_from(_OPERATIONS if depth else ("leaf",))):
            case "leaf":
                return self.leaf(path, loops, is_int, reads)
            case "sum":
                return f"{more()} {draw(choices.sampled_from('+-'))} ({more()})"
            case "scale":
                factors = ("2", "-3") if is_int else ("2", "-1", "0.5")
                return f"{draw(choices.sampled_from(factors))}*({more()})"
            case "min":
                return f"{draw(choices.sampled_from(('min', 'max')))}({more()}, {more()})"
            case "if":
                sign = draw(choices.sampled_from(("<", "<=", ">", "==", "!=")))
                return f"if({more()} {sign} {more()}, {more()}, {more()})"
            case "abs":
                return f"abs({more()})"
            case sign:
                divisor = draw(choices.sampled_from(("2", "3", "5", "(-3)")))
                return f"(({more(True)}) {sign} {divisor})"

    def right_hand_side(self, path: Path, is_int: bool, reads: list[Access]) -> str:
        """Draw an expression, or a reduction over a loop of its own."""
        own = [x for x in self.reductions if x.parent is None or x.parent in path]
        if own and self.draw(choices.booleans()):
            loop = self.draw(choices.sampled_from(own))
            inner = self.expression(path, (*path, loop), is_int, 1, reads)
            return self.reduction(loop, inner)
        return self.expression(path, path, is_int, self.draw(choices.integers(0, 2)), reads)

    def reduction(self, loop: Loop, inner: str) -> str:
        """Draw how the values of an expression are combined."""
        is_any = loop.is_constant or loop.is_never_empty
        names = ("sum", "sum", "max", "min") if is_any else ("sum",)
        name = self.draw(choices.sampled_from(names))
        more = self.draw(choices.sampled_from(("", " + 1", " - n")))
        return f"{name}({loop.name}, {inner}){more}"

    def conditions(self, path: Path, reads: list[Access]) -> tuple[str, ...]:
        """Draw no condition, an affine one, or one on data."""
        kind = self.draw(choices.sampled_from("----aad"))
        if kind == "-" or not path:
            return ()
        if kind == "a":
            loop = self.draw(choices.sampled_from(path))
            other = self.draw(choices.sampled_from((*(x.name for x in path), "n", "2", "3")))
            sign = self.draw(choices.sampled_from(("<", ">=", "!=", "==", "<=")))
            return (f"{loop.name} {sign} {other}",)
        access = self.input_access(path, self.draw(choices.booleans()))
        reads.append(access)
        return (f"{access} > 0",)

    # -- statements -------------------------------------------------------------------------

    def new_array(self, is_int: bool, naxes: int) -> str:
        """Declare an array that nobody knows yet."""
        name = f"out{len(self.arrays)}"
        self.arrays[name] = Array(name, is_int, (Linear(),) * naxes)
        return name

    def new_temporary(self, is_int: bool, naxes: int, home: Path, space: str) -> str:
        """Declare a temporary that nobody knows yet."""
        name = f"t{len(self.arrays)}"
        self.arrays[name] = Array(name, is_int, (Linear(),) * naxes, home, space)
        return name

    def element_for(self, path: Path, is_int: bool, reads: Sequence[Access]) -> Access:
        """Choose what to write: an element of its own for each iteration."""
        if self.draw(choices.integers(0, 2)) == 0:
            for s in reversed(self.statements):
                array = self.arrays[s.write.array]
                fits = array.home is None and array.is_int == is_int
                if fits and self.may_write(path, s.write, reads):
                    return s.write
        name = self.new_array(is_int, max(1, len(path)))
        order = self.draw(choices.permutations(path))
        indices = tuple(self.own_index(loop) for loop in order) or (Index("0", Linear(c=1)),)
        return self.grown(Access(name, indices))

    def assignment(self, path: Path) -> None:
        """Draw ``out[i, j] = ...``, to a new array or to one written before."""
        is_int, reads = self.draw(choices.booleans()), list[Access]()
        text = self.right_hand_side(path, is_int, reads)
        self.add(path, self.element_for(path, is_int, reads), text, reads)

    def increment(self, path: Path) -> None:
        """Draw ``out[i] = out[i] + ...`` inside more loops than the element has."""
        is_int, reads = self.draw(choices.booleans()), list[Access]()
        text = self.expression(path, path, is_int, 1, reads)
        kept = path[: self.draw(choices.integers(0, len(path)))]
        name = self.new_array(is_int, len(kept))
        write = self.grown(Access(name, tuple(self.own_index(loop) for loop in kept)))
        if self.draw(choices.booleans()):
            self.add(kept, write, str(self.draw(choices.integers(0, 3))), ())
        self.add(path, write, f"{write} + {text}", [*reads, write])

    def scan(self, path: Path) -> None:
        """Draw ``out[i] = sum(r, ...)``, where ``r`` takes more values at each step of ``i``."""
        is_int, reads = self.draw(choices.booleans()), list[Access]()
        loop = self.draw(choices.sampled_from(self.reductions))
        leaves, self.leaves = self.leaves, _INPUTS
        around = path[:-1]  # what changes along the loop is no operand
        inner = self.expression(around, (*around, loop), is_int, 1, reads)
        self.leaves = leaves
        text = self.reduction(loop, inner)
        is_always = self.draw(choices.integers(0, 5)) > 0  # few conditions are for scans
        self.add(path, self.element_for(path, is_int, reads), text, reads, is_always=is_always)

    def temporary(self, path: Path) -> None:
        """Draw ``<> t = ...``, perhaps changed once, and a use of it."""
        is_int, reads = self.draw(choices.booleans()), list[Access]()
        text = self.right_hand_side(path, is_int, reads)
        write = Access(self.new_temporary(is_int, 0, path, "private"))
        is_changed = self.draw(choices.booleans())
        is_typed = is_changed or self.draw(choices.booleans())
        declare = f"<{self.arrays[write.array].dtype}> " if is_typed else "<> "
        self.add(path, write, text, reads, declare)
        if is_changed:
            reads = []
            text = self.expression(path, path, is_int, 1, reads)
            self.add(path, write, f"{write} + {text}", [*reads, write])
        nests = [other for other in self.paths() if other[: len(path)] == path]
        self.use(self.draw(choices.sampled_from(nests)), write, is_int)

    def some_assignments(self, outer: Loop, number: int) -> None:
        """Draw assignments in a loop, and perhaps in one inside."""
        nests = [outer.path]
        if self.draw(choices.booleans()):
            self.loops.append(draw_loop(self.draw, f"j{number}", outer))
            nests.append(self.loops[-1].path)
        for _ in range(self.draw(choices.integers(1, 2))):
            self.assignment(self.draw(choices.sampled_from(nests)))

    def kept(self, path: Path) -> None:
        """Draw ``<> t = ...``, which is used in the loops *path* behind the next barrier."""
        is_int, reads = self.draw(choices.booleans()), list[Access]()
        text = self.right_hand_side(path, is_int, reads)
        write = Access(self.new_temporary(is_int, 0, path, "private"))
        self.add(path, write, text, reads, f"<{self.arrays[write.array].dtype}> ")
        self.waiting.append((path, write, is_int))

    def use(self, inner: Path, write: Access, is_int: bool) -> None:
        """Draw a use of a temporary in the loops *inner*."""
        reads = [write]
        text = f"{write} - ({self.expression(inner, inner, is_int, 1, reads)})"
        self.add(inner, self.element_for(inner, is_int, reads), text, reads)

    def tile(self, path: Path, space: str = "private") -> None:
        """Draw a temporary array, filled in one loop and read in another one."""
        is_int, reads = self.draw(choices.booleans()), list[Access]()
        length, parent = self.draw(choices.integers(2, 4)), path[-1] if path else None
        fill, use = (
            tile_loop(self.draw, f"{x}{len(self.loops)}", length, parent) for x in ("f", "u")
        )
        self.loops += [fill, use]
        name = self.new_temporary(is_int, 1, path, space)
        start = f"{fill.name} + {-fill.low}".replace("+ -", "- ")
        write = self.grown(Access(name, (Index(start, fill.extent, fill.name),)))
        text = self.expression((*path, fill), (*path, fill), is_int, 1, reads)
        self.add((*path, fill), write, text, reads)
        end = f"{length - 1 + use.low} - {use.name}"
        read = Access(name, (Index(end, use.extent, use.name),))
        element = self.element_for((*path, use), is_int, [read])
        self.add((*path, use), element, f"2*{read} + {name}[0]", [read])

    def paths(self) -> list[Path]:
        """Return the loop nests that statements may be in."""
        return [loop.path for loop in self.loops] or [()]

    def drop_cycles(self) -> None:
        """Keep the statements before the first that has a loop wait for itself."""
        after: dict[str, set[str]] = {}
        for count, s in enumerate(self.statements):
            for other in self.statements[:count]:
                if other.id in s.deps:
                    first, second = _where_they_part(other, s)
                    if first != second:
                        after.setdefault(second, set()).add(first)
            if any(_reaches(after, name, name) for name in after):
                del self.statements[count:]

    # -- the whole --------------------------------------------------------------------------

    def needs_final_dependencies(self, s: Statement) -> bool:
        """Tell whether the single writer of something read comes later in the program."""
        names = dict.fromkeys(read.array for read in s.reads)
        writers = [self.writers(name) for name in names]
        return any(len(w) == 1 and w[0].id not in (s.id, *s.deps) for w in writers)

    def line(self, s: Statement) -> str:
        """Write a statement with its loops and options: in blocks, or all in the options."""
        in_block = bool(s.path) and self.draw(choices.booleans())
        options = [f"id={s.id}"]
        star = "*" if self.needs_final_dependencies(s) else ""
        if star or s.deps:
            options.append(f"dep={star}{':'.join(s.deps)}")
        if not in_block:
            options.append("inames=" + ":".join(loop.name for loop in s.path))
            options += [f"if={condition}" for condition in s.conditions]
            return f"{s.text} {{{', '.join(options)}}}"
        opened = [f"for {', '.join(loop.name for loop in s.path)}"]
        opened += [f"if {condition}" for condition in s.conditions]
        return "\n".join([*opened, f"{s.text} {{{', '.join(options)}}}", *["end"] * len(opened)])

    def lines(self) -> Iterator[str]:
        """Write all statements, and barriers between them."""
        for count, s in enumerate(self.statements):
            if count in self.barriers:
                before = ":".join(other.id for other in self.statements[:count])
                yield f"... gbarrier {{id={self.barriers[count]}, dep={before}}}"
            yield self.line(s)

    def program(self) -> Program:
        """Write it down."""
        draw = self.draw
        loops = [*self.loops, *self.reductions]
        used = {x.name for s in self.statements for x in s.path}
        texts = " ".join(" ".join((s.text, *s.conditions)) for s in self.statements)
        self.rules = [rule for rule in self.rules if re.search(rf"\b{rule.name}\b", texts)]
        texts = " ".join((texts, *(rule.text for rule in self.rules)))
        loops = [x for x in loops if x.name in used or re.search(rf"\b{x.name}\b", texts)]
        declarations = []
        for array in self.arrays.values():
            if not re.search(rf"\b{array.name}\b", texts):
                continue
            shape = tuple(map(str, array.shape))
            is_inferred = array.home is None and bool(shape) and draw(choices.integers(0, 4)) == 0
            if shape or array.space == "global":
                declarations.append(
                    ArrayDecl(
                        array.name, array.dtype, shape, array.space, is_inferred, array.values
                    )
                )
        more = ("", "", "n >= 1", "n >= m", f"n mod {draw(choices.integers(2, 4))} = 0")
        domains = draw_domains(draw, loops)
        lines = (*map(str, self.rules), *self.lines())
        everything = " ".join((*domains, *lines, *(s for d in declarations for s in d.shape)))
        known = [name for name in ("n", "m") if re.search(rf"\b{name}\b", everything)]
        assumptions = [f"{name} >= 0" for name in known]
        extra = draw(choices.sampled_from(more))
        if set(re.findall(r"\b[nm]\b", extra)) <= set(known):
            assumptions.append(extra)
        return Program(
            domains,
            lines,
            tuple(declarations),
            " and ".join(filter(None, assumptions)),
            tuple(name for name in known if not re.search(rf"\b{name}\b", " ".join(domains))),
            depth=max(self.depth(s) for s in self.statements),
        )

    def depth(self, s: Statement) -> int:
        """Return how many loops of variable length are around a statement or inside."""
        inside = [x for x in self.reductions if re.search(rf"\({x.name},", s.text)]
        return max(1, sum(1 for x in (*s.path, *inside) if not x.is_constant))


def _where_they_part(one: Statement, other: Statement) -> tuple[str, str]:
    """Return what holds each of two statements directly inside the loops they share."""
    shared = sum(1 for loop in one.path if loop in other.path)
    first, second = (s.path[shared].name if len(s.path) > shared else s.id for s in (one, other))
    return first, second


def _reaches(after: dict[str, set[str]], start: str, end: str) -> bool:
    seen, stack = set[str](), [start]
    while stack:
        for name in after.get(stack.pop(), ()):
            if name == end:
                return True
            if name not in seen:
                seen.add(name)
                stack.append(name)
    return False


def draw_local_kernel(draw: Draw) -> Kernel:
    """Draw a kernel of tiles in local memory, for work-groups that share them."""
    kernel = Kernel(draw)
    outer = draw_loop(draw, "i", None)
    kernel.loops.append(outer)
    if draw(choices.booleans()):
        kernel.loops.append(draw_loop(draw, "j", outer))
    nests = kernel.paths()
    for _ in range(draw(choices.integers(1, 3))):
        kernel.tile(draw(choices.sampled_from(nests)), "local")
    kernel.drop_cycles()
    return kernel


def draw_global_kernel(draw: Draw) -> Kernel:
    """Draw nests that a global barrier keeps apart, each with one loop around all of it."""
    kernel = Kernel(draw)
    for number in range(draw(choices.integers(2, 3))):
        if number:
            kernel.add_barrier()
        outer = draw_loop(draw, f"i{number}", None)
        kernel.loops.append(outer)
        kernel.some_assignments(outer, number)
    return kernel


def draw_saving_kernel(draw: Draw) -> Kernel:
    """Draw nests in one loop, with values of its iterations that are used behind barriers."""
    kernel = Kernel(draw)
    outer = draw_loop(draw, "i", None)
    kernel.loops.append(outer)
    count = draw(choices.integers(2, 3))
    for number in range(count):
        if number:
            kernel.add_barrier()
        kernel.some_assignments(outer, number)
        if number < count - 1:
            kernel.kept(outer.path)
    kernel.drop_cycles()
    return kernel


def draw_kernel(draw: Draw) -> Kernel:
    """Draw a kernel of one to three nested or neighbouring loops, and up to six statements."""
    kernel = Kernel(draw)
    for name in "ijk"[: draw(choices.sampled_from((2, 3, 1)))]:
        parent = draw(choices.sampled_from((*kernel.loops, *kernel.loops, None)))
        kernel.loops.append(draw_loop(draw, name, parent))
    for name in "rq"[: draw(choices.integers(0, 2))]:
        parent = draw(choices.sampled_from((*kernel.loops, None, None)))
        kernel.reductions.append(draw_loop(draw, name, parent))
    kinds = (kernel.assignment, kernel.assignment, kernel.increment, kernel.temporary, kernel.tile)
    nests = [*kernel.paths(), *kernel.paths(), ()]
    for _ in range(draw(choices.sampled_from((2, 3, 1)))):
        draw(choices.sampled_from(kinds))(draw(choices.sampled_from(nests)))
    kernel.drop_cycles()
    return kernel


def draw_scan_kernel(draw: Draw) -> Kernel:
    """Draw a kernel of reductions that grow along a loop, in each of several rows or in one."""
    kernel = Kernel(draw)
    row = draw_loop(draw, "k", None) if draw(choices.booleans()) else None
    kernel.loops += [row] if row is not None else []
    if draw(choices.booleans()):
        along = tile_loop(draw, "i", draw(choices.integers(2, 9)), row)
    else:
        along = rectangle(draw, "i", row)
    kernel.loops.append(along)
    for name in "rq"[: draw(choices.integers(1, 2))]:
        kernel.reductions.append(growing_loop(draw, name, along))
    for _ in range(draw(choices.sampled_from((1, 1, 2, 3)))):
        draw(choices.sampled_from((kernel.scan,) * 4 + (kernel.assignment,)))(along.path)
    kernel.drop_cycles()
    return kernel


def draw_fetch_kernel(draw: Draw) -> Kernel:
    """Draw a kernel that reads inputs and uses rules, each statement inside the first loop."""
    kernel = Kernel(draw, _FETCHED_LEAVES, _FETCHED_SUBSCRIPTS)
    for name in "ij"[: draw(choices.integers(1, 2))]:
        parent = kernel.loops[0] if kernel.loops else None
        kernel.loops.append(draw_loop(draw, name, parent))
    if draw(choices.booleans()):
        length = draw(choices.integers(2, 5))
        kernel.loops.append(tile_loop(draw, "k", length, draw(choices.sampled_from(kernel.loops))))
    for name in "rq"[: draw(choices.integers(0, 2))]:
        parent = draw(choices.sampled_from((*kernel.loops, None)))
        kernel.reductions.append(tile_loop(draw, name, draw(choices.integers(2, 5)), parent))
    kinds = (kernel.assignment, kernel.assignment, kernel.assignment, kernel.temporary, kernel.tile)
    for _ in range(draw(choices.integers(1, 2))):
        nests = kernel.paths()
        draw(choices.sampled_from(kinds))(draw(choices.sampled_from((*nests, nests[-1]))))
    kernel.drop_cycles()
    return kernel
