"""loopy.transform.buffer: copies of parts of arrays, written back."""

from kgen.transforms.storage.buffer import *
