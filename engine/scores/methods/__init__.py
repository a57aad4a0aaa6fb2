"""Ways to score heads: one way, one file."""
