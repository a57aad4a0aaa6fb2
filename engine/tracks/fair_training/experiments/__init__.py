"""Figures of the BiFP paper as requests: one experiment, one row, found by being here."""
