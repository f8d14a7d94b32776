"""Images: arrays that are read through functions, by coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kgen.targets.preamble import Need, Rank

__all__ = ["ImageFunctions", "OPENCL_IMAGES"]

Dtype = np.dtype[Any]


@dataclass(frozen=True)
class ImageFunctions:
    """How a language reads images: types by number of axes, functions by element type.

    ``reads`` are patterns of the element, for ``{image}`` and the coordinates ``{at}``.
    """

    type_names: Mapping[int, str]
    coordinates: Mapping[int, str]
    reads: Mapping[str, str]
    needs: tuple[Need, ...]

    def type_name(self, naxes: int) -> str | None:
        """Return the type of an image with a number of axes."""
        return self.type_names.get(naxes)

    def read(self, image: str, dtype: Dtype, indices: list[str]) -> str | None:
        """Write the element at *indices*, slowest axis first; ``None`` if no image has the type."""
        pattern = self.reads.get(dtype.name)
        if pattern is None:
            return None
        coordinates = ", ".join(reversed(indices))
        return pattern.format(image=image, at=self.coordinates[len(indices)].format(coordinates))


_SAMPLER: Final = Need(
    Rank.MACRO,
    "image sampler",
    "__constant sampler_t kgen_sampler =\n"
    "  CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;",
)

OPENCL_IMAGES: Final = ImageFunctions(
    type_names={1: "image1d_t", 2: "image2d_t", 3: "image3d_t"},
    coordinates={1: "{}", 2: "(int2)({})", 3: "(int4)({}, 0)"},
    reads={
        "float32": "read_imagef({image}, kgen_sampler, {at}).x",
        "int8": "(char) read_imagei({image}, kgen_sampler, {at}).x",
        "int16": "(short) read_imagei({image}, kgen_sampler, {at}).x",
        "int32": "read_imagei({image}, kgen_sampler, {at}).x",
        "uint8": "(uchar) read_imageui({image}, kgen_sampler, {at}).x",
        "uint16": "(ushort) read_imageui({image}, kgen_sampler, {at}).x",
        "uint32": "read_imageui({image}, kgen_sampler, {at}).x",
        # two halves, so that their bits are not interpreted as a number
        "float64": "as_double(read_imageui({image}, kgen_sampler, {at}).xy)",
    },
    needs=(_SAMPLER,),
)
