"""Looks for races between threads of the host with ThreadSanitizer: ``python -m tools.races``."""
