"""Ways to choose the filters of a CNN that are cut: one way, one file."""
