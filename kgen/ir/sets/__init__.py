"""Named isl sets, quasi-affine expressions, and the budget of isl operations."""
