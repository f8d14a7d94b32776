"""Kernels that choose their configuration by records: by the device, then by the nearest sizes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.host.variants import Variant
from kgen.tuning.devices import device_info
from kgen.tuning.records import Record, Records
from kgen.tuning.task import Problem
from kgen.tuning.wisdom import Wisdom

HOST = device_info(lp.ExecutableCTarget(), ()).identity
GPU = {"api": "cuda", "kind": "gpu", "vendor": "NVIDIA", "name": "H200", "driver": "580"}


def build(block: int) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i, j]: 0<=i<n and 0<=j<m }",
        "out[i, j] = 2*a[i, j]",
        [lp.GlobalArg("a, out", "float32", shape="n, m"), ...],
        target=lp.ExecutableCTarget(),
        name="twice",
        assumptions="n >= 1 and m >= 1",
    )
    return lp.split_iname(knl, "i", block)


def record(block: int, device: dict[str, str] = HOST, time: float = 1.0, **sizes: Any) -> Record:
    return Record(
        kernel="twice",
        configuration={"block": block},
        problem=Problem(sizes),
        device=device,
        status="measured",
        code=f"{block}",
        time=time,
    )


def test_the_nearest_sizes_on_the_device_are_chosen() -> None:
    records = (record(2, n=10, m=10), record(4, n=1000, m=1000), record(8, GPU, n=300, m=300))
    tuned = Wisdom(records).tuned(build)
    assert tuned.choose(n=10, m=10).rule == "measured on this device, for these sizes"
    found = tuned.choose(n=300, m=300)
    assert found.configuration == {"block": 4}
    assert found.rule == "the nearest sizes on this device: n=1000, m=1000"


def test_the_fastest_of_one_problem_is_chosen() -> None:
    records = (record(2, time=3.0, n=10), record(4, time=2.0, n=10), record(8, time=5.0, n=10))
    assert Wisdom(records).tuned(build).choose(n=10).configuration == {"block": 4}


def test_the_winner_of_the_last_comparison_is_chosen(tmp_path: Path) -> None:
    slower, faster = record(4, time=2.0, n=10, m=10), record(8, time=1.0, n=10, m=10)
    file = Records(tmp_path / "records")
    for one in (faster, slower):  # the second comparison was in a slower minute
        file.add(dataclasses.replace(one, is_best=True))
    read = lp.load_wisdom(tmp_path / "records")
    ((best, _),) = read.candidates("twice", HOST, {"n": 10, "m": 10})
    assert best.configuration == {"block": 4}


def test_another_device_is_better_than_none() -> None:
    found = Wisdom((record(8, GPU, n=300),)).tuned(build, {"block": 16}).choose(n=300)
    assert found.configuration == {"block": 8}
    assert found.rule == "measured on another device, H200, for these sizes"


def test_no_record_is_no_error(tmp_path: Path) -> None:
    tuned = lp.load_wisdom(tmp_path / "none").tuned(build, {"block": 16})
    _event, (out,) = tuned(a=np.ones((3, 5), np.float32))
    assert (out == 2).all()
    assert tuned.last is not None
    assert tuned.last.rule == "no record: the default configuration"


def test_configuration_that_makes_no_kernel_is_passed_over() -> None:
    records = (record(-1, n=10), record(4, n=1000))
    assert Wisdom(records).tuned(build, {"block": 16}).choose(n=10).configuration == {"block": 4}


def test_without_a_default_there_is_an_error() -> None:
    with pytest.raises(lp.KgenError, match="where there is no record"):
        Wisdom(()).tuned(build)


def test_error_without_a_default_lists_the_records() -> None:
    failed = dataclasses.replace(record(4, n=8), time=None, status="failed")
    with pytest.raises(lp.KgenError, match=r"no record has a time .*: 2 of twice \(failed\)"):
        Wisdom((failed, failed)).tuned(build)


def test_sizes_follow_from_shapes() -> None:
    tuned = Wisdom((record(2, n=3, m=5), record(4, n=3, m=7))).tuned(build)
    for columns, block in ((5, 2), (7, 4)):
        tuned(a=np.ones((3, columns), np.float32))
        assert tuned.last is not None
        assert tuned.last.configuration == {"block": block}


def test_wisdom_is_read_from_records(tmp_path: Path) -> None:
    records = Records(tmp_path / "records")
    records.add(record(4, n=10))
    assert lp.load_wisdom(tmp_path / "records").records == (record(4, n=10),)


def first(variants: tuple[Variant, ...], **sizes: int) -> Variant:
    conditions = (variant.when or "True" for variant in variants)
    return variants[[bool(eval(text, dict(sizes))) for text in conditions].index(True)]  # noqa: S307


SIZES: list[dict[str, Any]] = [
    {"n": 64, "m": 64},
    {"n": 512, "m": 512},
    {"n": 4096, "m": 16},
    {"n": 32, "m": 2048},
]


def test_exported_variants_choose_as_a_call_does() -> None:
    tuned = Wisdom(tuple(record(2 + k, HOST, **sizes) for k, sizes in enumerate(SIZES))).tuned(
        build
    )
    variants = tuned.variants()
    rng = np.random.default_rng(3)
    for n, m in np.exp(rng.uniform(0, math.log(5000), (200, 2))).astype(int).tolist():
        exported = first(variants, n=n, m=m).program.code_digest()
        same = exported == tuned.choose(n=n, m=m).kernel.code_digest()
        assert same or is_at_limit(n, m), (n, m)


def is_at_limit(n: int, m: int) -> bool:
    """Tell whether two records are nearly as far from some sizes."""
    near = sorted(math.hypot(math.log(n / s["n"]), math.log(m / s["m"])) for s in SIZES)
    return near[1] < 1.15 * near[0]


def test_tuned_kernel_is_exported(tmp_path: Path) -> None:
    tuned = Wisdom((record(2, n=10), record(4, n=1000))).tuned(build)
    lp.export(tuned, tmp_path, targets="c", namespace="demo")
    text = (tmp_path / "src" / "demo_twice.c").read_text()
    assert "if ((int64_t) n < 100)" in text


def test_tunes_with_other_parameters_may_share_a_file() -> None:
    def in_tiles(tile: int) -> lp.TranslationUnit:
        return build(tile)

    tile = dataclasses.replace(record(8, time=0.5, n=10, m=10), configuration={"tile": 8})
    wisdom = Wisdom((record(4, n=10, m=10), tile))
    for made, configuration in ((build, {"block": 4}), (in_tiles, {"tile": 8})):
        tuned = wisdom.tuned(made)
        assert tuned.general.configuration == configuration
        assert tuned.choose(n=10, m=10).configuration == configuration
        assert tuned.choose(n=10, m=10).record is not None
        assert len(tuned.variants()) == 2
