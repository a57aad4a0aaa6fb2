"""Changing weights: losses, batches, and the loop that fits a model."""
