"""A campaign of random programs on many processes: ``python -m tools.fuzz --help``."""
