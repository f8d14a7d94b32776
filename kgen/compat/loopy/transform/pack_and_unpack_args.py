"""loopy.transform.pack_and_unpack_args: arguments of calls, copied."""

from kgen.transforms.programs.pack import *
