"""Drawing pictures with matplotlib: a module for each picture, with a function `plot`."""
