"""Figures of the performance-weighted loss paper as requests: one experiment, one row, found by
being here."""
