"""Figures and tables of the thesis, chapter 6, as requests: one experiment, one row, found by being
here."""
