"""loopy.type_inference: types that follow from others."""

from kgen.analysis.infer import *
