"""loopy.transform.iname: loop variables."""

from kgen.transforms.loops.affine import *
from kgen.transforms.loops.inames import *
from kgen.transforms.loops.rename import *
from kgen.transforms.loops.split import *
from kgen.transforms.loops.tag import *
from kgen.transforms.reductions.nesting import *
from kgen.transforms.statements import *
