"""loopy.transform.concatenate: concatenation of arrays."""

from kgen.transforms.storage.array_axes import *
