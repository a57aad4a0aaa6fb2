"""Ways to choose the heads to cut: one way, one file."""
