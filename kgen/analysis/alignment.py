"""Subscripts that are multiples of a number, by the assumptions on parameters."""

from __future__ import annotations

from math import gcd

import pymbolic.primitives as p

from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.affine import linear_form, simplify
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import has_param
from kgen.ir.sets.quasi_affine import set_from_condition

__all__ = ["unaligned_part"]


def unaligned_part(kernel: LoopKernel, index: Expr, modulus: int) -> Expr:
    """Return the part of *index* that is not known to be a multiple of *modulus*, or 0.

    For ``4*i + n*j + 1`` and 4, this is ``n*j + 1``, or ``1`` if the assumptions make ``n``
    a multiple of 4.
    """
    form = linear_form(index)
    rest: list[Expr] = []
    for coefficient, atom in form.terms:
        needed = modulus // gcd(coefficient, modulus)
        factors = atom.children if isinstance(atom, p.Product) else (atom,)
        if needed > 1 and not any(_is_multiple(kernel, factor, needed) for factor in factors):
            rest.append(p.Product((coefficient, atom)))
    return simplify(p.Sum((*rest, form.constant % modulus)))


def _is_multiple(kernel: LoopKernel, factor: Expr, number: int) -> bool:
    """Tell whether the assumptions make *factor* a multiple of *number*."""
    known = kernel.assumptions
    names = variable_names(factor)
    if not names or not all(has_param(known, n) for n in names):
        return False
    condition = p.Comparison(p.Remainder(factor, number), "==", 0)
    try:
        multiples = set_from_condition(known.get_space(), condition)
    except ExpressionToAffineConversionError:
        return False
    return bool(known.params().is_subset(multiples.params()))
