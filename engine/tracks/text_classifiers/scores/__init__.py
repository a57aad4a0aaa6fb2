"""Ways to score the attention heads of a text classifier: one way, one file."""
