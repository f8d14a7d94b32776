"""The small languages of users: expressions, instructions, options, domains, matches."""
