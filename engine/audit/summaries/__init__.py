"""Summaries of finished runs: one file per track, found by its name."""
