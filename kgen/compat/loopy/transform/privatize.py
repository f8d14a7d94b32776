"""loopy.transform.privatize: temporaries with an element for each iteration."""

from kgen.transforms.storage.privatize import *
from kgen.transforms.storage.unprivatize import *
