"""loopy.transform.precompute: stored values of rules."""

from kgen.transforms.storage.precompute import *
