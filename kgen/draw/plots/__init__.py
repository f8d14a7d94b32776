"""How pictures are drawn by matplotlib: a module for each, with a function `plot`."""
