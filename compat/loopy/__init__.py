"""What ``import loopy`` finds: it becomes ``kgen.compat.loopy``."""

import sys

from kgen.compat import install

del sys.modules[__name__]  # importlib goes on with the module that install() puts there
install()
