"""Parameter values for evaluating kernels: all, or some small ones."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from kgen.ir.sets.dims import (
    Set,
    bound_param,
    fix_param_values,
    from_named,
    has_param,
    least_value,
    param_names,
    point_values,
    project_out_params,
)

__all__ = ["all_sizes", "sizes_near"]


def all_sizes(allowed: Set, names: Sequence[str], most: int) -> list[dict[str, int]] | None:
    """Return all possible values of sizes, ``None`` if there are more than *most*."""
    if not set(names) <= set(param_names(allowed)):
        return [{}] if not names else None
    others = [name for name in param_names(allowed) if name not in names]
    points = from_named(project_out_params(allowed, others), names)
    found: list[dict[str, int]] = []
    while not points.is_empty():
        if len(found) == most or not points.is_bounded():
            return None
        point = points.sample_point()
        found.append(dict(zip(names, point_values(point, len(names)), strict=True)))
        points = points.subtract(isl.Set.from_point(point))
    return sorted(found, key=lambda sizes: tuple(sizes.values()))


def sizes_near(
    allowed: Set, names: Sequence[str], least: int, step: int = 1
) -> dict[str, int] | None:
    """Return sizes of at least *least*, or the next values that the assumptions allow.

    Each is *step* larger than the previous one; if that is negative, than the next one.
    """
    sizes: dict[str, int] = {}
    for offset, name in enumerate(names if step > 0 else reversed(names)):
        value = least + offset * abs(step)
        if has_param(allowed, name):
            above = bound_param(allowed, name, value)
            found = _least(allowed if above.is_empty() else above, name)
            if found is None:
                return None
            value = found
            allowed = fix_param_values(allowed, {name: value})
        sizes[name] = value
    return {name: sizes[name] for name in names}


def _least(allowed: Set, name: str) -> int | None:
    """Return the least value of a parameter, if it has one."""
    only = project_out_params(allowed, [other for other in param_names(allowed) if other != name])
    found = least_value(from_named(only, (name,)), name)
    return int(found.to_python()) if found.is_int() else None
