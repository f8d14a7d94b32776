"""loopy.transform.realize_reduction: reductions as loops."""

from kgen.transforms.reductions.realize import *
