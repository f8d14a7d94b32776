"""loopy.preprocess: the steps before scheduling."""

from __future__ import annotations

from kgen.compat.renamed import renamed
from kgen.lowering import preprocess_kernel
from kgen.transforms.programs.arg_descriptors import infer_arg_descr

__all__ = ["infer_arg_descr", "preprocess_kernel", "preprocess_program"]

preprocess_program = renamed("preprocess_program", preprocess_kernel)
