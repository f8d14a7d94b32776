"""The ISPC target."""
