"""loopy.transform.privatize: temporaries with an element for each iteration."""

from __future__ import annotations

from kgen.transforms.storage.privatize import (
    privatize_temporaries_with_inames,
)
from kgen.transforms.storage.unprivatize import (
    unprivatize_temporaries_with_inames,
)

__all__ = [
    "privatize_temporaries_with_inames",
    "unprivatize_temporaries_with_inames",
]
