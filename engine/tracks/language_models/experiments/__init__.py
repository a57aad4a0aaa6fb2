"""Figures of the FASP paper as requests: one experiment, one row, found by being here."""
