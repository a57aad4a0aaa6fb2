"""Ways to score the heads of a language model: one way, one file."""
