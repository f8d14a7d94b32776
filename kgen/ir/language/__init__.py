"""kgen's text languages: expressions, instructions, options, domains, matches."""
