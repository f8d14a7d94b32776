"""loopy.transform.save: temporaries that outlive a launch."""

from kgen.launches.save import *
