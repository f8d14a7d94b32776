"""Writers: typed expressions, instructions and code trees as cgen syntax trees of the C family."""
