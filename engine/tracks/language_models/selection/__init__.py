"""Ways to choose the heads to cut from their scores: one way, one file."""
