"""loopy.type_inference: inference of types."""

from kgen.analysis.infer import *
