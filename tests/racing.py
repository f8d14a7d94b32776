"""A kernel that is said not to race, and does: for the test of what looks for races."""

from __future__ import annotations

import numpy as np

import kgen as lp

if __name__ == "__main__":
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[k[i]] = i {id=w}",
        [lp.GlobalArg("out", np.float64, shape="n"), lp.GlobalArg("k", np.int32), "..."],
        target=lp.ExecutableCTarget(),
        silenced_warnings="write_race(w)",
    )
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl(k=np.arange(16, dtype=np.int32) % 8, out=np.zeros(16))
