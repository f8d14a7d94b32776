"""loopy.transform.concatenate: arrays one behind the other."""

from kgen.transforms.storage.array_axes import *
