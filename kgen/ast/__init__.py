"""From a schedule to the code tree: isl's AST generator, translation, verification."""
