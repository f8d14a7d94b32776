"""Every picture is drawn, to SVG and to PNG; what is in it, other tests compare as data."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import kgen as lp
from tests.draw.kernels import product, stencil, transpose, wave

pytest.importorskip("matplotlib")


def pictures() -> dict[str, lp.draw.Picture]:
    host = lp.Device(name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    found = lp.roofline(lp.tag_inames(product(), "i:g.0"), {"n": 16}, host)
    return {
        "iterations": lp.draw.iterations(wave(), {"m": 3, "n": 5}),
        "slices": lp.draw.iterations(product(), {"n": 2}),
        "accesses": lp.draw.accesses(stencil(), "a", {"n": 26}),
        "banks": lp.draw.banks(transpose(size=8), "a_fetch"),
        "prefetch": lp.draw.prefetch(stencil(), "a_fetch", {"n": 10}),
        "schedule": lp.draw.schedule(stencil()),
        "dependences": lp.draw.dependences(stencil()),
        "roofline": lp.draw.roofline(found),
    }


def test_files(tmp_path: Path) -> None:
    for name, picture in pictures().items():
        picture.save(tmp_path / f"{name}.png", dpi=20)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name


def test_svg_is_the_same_each_time() -> None:
    picture = lp.draw.iterations(wave(), {"m": 3, "n": 5})
    assert ET.fromstring(picture.svg()).tag.endswith("svg")
    assert picture._repr_html_() == picture.svg()


def test_a_file_of_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(lp.KgenError, match=r"one of \.svg, \.png, \.pdf"):
        lp.draw.schedule(wave()).save(tmp_path / "tree.doc")


def test_texts_of_a_figure() -> None:
    figure = lp.draw.banks(transpose(), "a_fetch").figure()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[1] == "load a_fetch[i_inner, j_inner] by 'insn': 32 passes"


def test_kernel_without_operations_has_no_place_below_the_roof() -> None:
    host = lp.Device(name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    knl = lp.make_kernel("{ [i]: 0 <= i < 9 }", "<> t[i] = i", target=lp.CTarget(), name="fill")
    picture = lp.draw.roofline(lp.roofline(knl, {}, host))
    assert picture.points[0].rate == 0
    assert "fill, predicted" not in picture.svg()
