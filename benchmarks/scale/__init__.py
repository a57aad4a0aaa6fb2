"""Audits at real sizes: time and agreement of each way to save time, as ratios in one run. One file
per row."""
