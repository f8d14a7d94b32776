"""The small languages that users write: expressions, instructions, options, domains, matches."""
