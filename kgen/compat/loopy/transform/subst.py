"""loopy.transform.subst: substitution rules."""

from __future__ import annotations

from kgen.transforms.expressions.make_rules import (
    assignment_to_subst,
    extract_subst,
)
from kgen.transforms.expressions.rules import (
    expand_subst,
    find_one_rule_matching,
    find_rules_matching,
)

__all__ = [
    "assignment_to_subst",
    "expand_subst",
    "extract_subst",
    "find_one_rule_matching",
    "find_rules_matching",
]
