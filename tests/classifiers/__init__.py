"""Groups, gaps, intervals and verdicts from a classifier's answers."""
