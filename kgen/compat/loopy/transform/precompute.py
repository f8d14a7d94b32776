"""loopy.transform.precompute: values of rules, stored."""

from kgen.transforms.storage.precompute import *
