"""The host's part of a call, as data from which launchers in all languages are generated."""
