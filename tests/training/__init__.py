"""Losses by hand, batches, and fits that resume bit for bit."""
