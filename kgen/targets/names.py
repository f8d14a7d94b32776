"""Kernel names that are reserved in the target language: renamed in the code, not for callers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.domains import rename_params
from kgen.ir.expr import Expr, substitute
from kgen.ir.kernel import LoopKernel
from kgen.ir.pieces import piece_names
from kgen.targets.base import CFamilyLanguage
from kgen.targets.module import (
    ArgumentInfo,
    Faults,
    HostIf,
    HostLoop,
    Launch,
    Module,
    Step,
)
from kgen.targets.words import LIBRARY, is_implementation_name
from kgen.transforms.expressions.variables import substitute_everywhere
from kgen.transforms.loops.rename import rename_iname
from kgen.transforms.storage.declarations import rename_argument

__all__ = ["Renaming", "hidden_names", "rename_reserved", "with_original_names"]

#: Comments, and strings, which may contain the start of a comment.
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
#: Names before parentheses, in a reversed text: few names follow a parenthesis there.
_CALLED = re.compile(r"\( ?(\w+)")
_FUNCTION_MACRO = re.compile(r"^#define (\w+)\(", re.MULTILINE)
_INCLUDED = re.compile(r"^#include <([^>]*)>", re.MULTILINE)


@dataclass(frozen=True)
class Renaming:
    """A kernel without reserved names, and the user's names of its variables."""

    kernel: LoopKernel
    original: Mapping[str, str]


def rename_reserved(kernel: LoopKernel, hidden: Collection[str] = ()) -> Renaming | None:
    """Rename variables with names that the code needs: words of the language, *hidden* names.

    Return ``None`` if there is nothing to rename.
    """
    target = kernel.target
    if not isinstance(target, CFamilyLanguage):
        return None
    taken = sorted(_taken(kernel, target.reserved_words, hidden))
    is_named_like_function = kernel.name in LIBRARY or _is_word(kernel.name, target.reserved_words)
    if not taken and not is_named_like_function:
        return None
    names = _fresh_names(kernel, target.reserved_words)
    new_names = {name: names(name.strip("_") or "v") for name in taken}
    name = names(kernel.name.strip("_") or "k") if is_named_like_function else kernel.name
    return Renaming(
        _renamed(kernel, new_names).copy(name=name, silenced_warnings=("*",)),
        _original_names(kernel, new_names),
    )


def _is_word(name: str, words: Collection[str]) -> bool:
    return name in words or is_implementation_name(name)


def _taken(kernel: LoopKernel, words: Collection[str], hidden: Collection[str]) -> Iterator[str]:
    for name in (*kernel.inames, *kernel.arg_dict, *kernel.temporary_variables):
        if _is_word(name, words) or name in hidden or (name in LIBRARY and _is_table(kernel, name)):
            yield name


def _is_table(kernel: LoopKernel, name: str) -> bool:
    """Tell whether a variable is declared outside of functions."""
    temporary = kernel.temporary_variables.get(name)
    return temporary is not None and temporary.initializer is not None


def _fresh_names(kernel: LoopKernel, words: Collection[str]) -> UniqueNameGenerator:
    """Return a generator of names that neither the kernel nor the language uses."""
    rules = kernel.substitutions.values()
    bound = {name for rule in rules for name in rule.arguments}
    return UniqueNameGenerator({*kernel.all_variable_names(), *bound, *words, *LIBRARY})


def _renamed(kernel: LoopKernel, new_names: Mapping[str, str]) -> LoopKernel:
    for old, new in new_names.items():
        if old in kernel.inames:
            kernel = rename_iname(kernel, old, new)
        elif old in kernel.arg_dict:
            kernel = rename_argument(kernel, old, new)
        else:
            kernel = _rename_temporary(kernel, old, new)
    return kernel


def _rename_temporary(kernel: LoopKernel, old: str, new: str) -> LoopKernel:
    domains = tuple(rename_params(domain, {old: new}) for domain in kernel.domains)
    renamed = substitute_everywhere(kernel.copy(domains=domains), {old: p.Variable(new)})
    temporaries = {
        new if name == old else name: variable.copy(name=new) if name == old else variable
        for name, variable in renamed.temporary_variables.items()
    }
    return renamed.copy(temporary_variables=temporaries)


def _original_names(kernel: LoopKernel, new_names: Mapping[str, str]) -> dict[str, str]:
    """Return the user's name for each renamed variable, and for each separate piece of an array."""
    result = {new: old for old, new in new_names.items()}
    for old, new in new_names.items():
        array = kernel.array_vars.get(old)
        if array is not None:
            result.update(zip(piece_names(array.copy(name=new)), piece_names(array), strict=True))
    return result


# -- names that code hides ---------------------------------------------------------------------


def hidden_names(kernel: LoopKernel, module: Module) -> frozenset[str]:
    """Return the variables of *kernel* that have the name of a function or macro in the code."""
    target = kernel.target
    assert isinstance(target, CFamilyLanguage)
    text = f"{module.device_source}\n{module.host_source}"
    if any(mark in text for mark in ('"', "//", "/*")):
        text = _COMMENT.sub("", text)
    names = {*kernel.inames, *kernel.arg_dict, *kernel.temporary_variables} - target.reserved_words
    backwards = {name[::-1]: name for name in names}
    called = Counter(backwards[word] for word in _CALLED.findall(text[::-1]) if word in backwards)
    called.subtract(launch.function for launch in module.launches)
    found = {name for name, times in called.items() if times > 0}
    directives = "\n".join([line for line in text.split("\n") if line.startswith("#")])
    found.difference_update(_FUNCTION_MACRO.findall(directives))
    for header in _INCLUDED.findall(directives):
        found |= names & target.words_of_headers.get(header, frozenset())
    return frozenset(found)


# -- names that callers know -------------------------------------------------------------------


def with_original_names(module: Module, name: str, original: Mapping[str, str]) -> Module:
    """Return *module* with the user's names everywhere except in the generated texts."""
    return _Restored(original).module(module, name)


class _Restored:
    def __init__(self, original: Mapping[str, str]) -> None:
        self.original = original
        self.values = {new: p.Variable(old) for new, old in original.items()}

    def module(self, module: Module, name: str) -> Module:
        return replace(
            module,
            name=name,
            arguments=tuple(map(self.argument, module.arguments)),
            steps=self.steps(module.steps),
            conditions=self.exprs(module.conditions),
            faults=None if module.faults is None else self.faults(module.faults),
        )

    def name(self, name: str) -> str:
        return self.original.get(name, name)

    def text(self, text: str) -> str:
        return re.sub(r"\w+", lambda found: self.name(found[0]), text)

    def exprs(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(substitute(expr, self.values) for expr in exprs)

    def argument(self, arg: ArgumentInfo) -> ArgumentInfo:
        return replace(
            arg,
            name=self.name(arg.name),
            shape=None if arg.shape is None else self.exprs(arg.shape),
            strides=None if arg.strides is None else self.exprs(arg.strides),
        )

    def steps(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        return tuple(map(self.step, steps))

    def step(self, step: Step) -> Step:
        match step:
            case Launch():
                parameters = tuple(map(self.name, step.parameters))
                return replace(step, parameters=parameters, groups=self.exprs(step.groups))
            case HostLoop():
                first, stop = self.exprs((step.first, step.stop))
                name = self.name(step.name)
                return replace(
                    step, name=name, first=first, stop=stop, steps=self.steps(step.steps)
                )
            case HostIf():
                (condition,) = self.exprs((step.condition,))
                return replace(step, condition=condition, steps=self.steps(step.steps))

    def faults(self, faults: Faults) -> Faults:
        guards = tuple(
            replace(
                guard,
                array=self.name(guard.array),
                access=self.text(guard.access),
                extent=self.text(guard.extent),
            )
            for guard in faults.guards
        )
        return Faults(self.name(faults.name), guards)
