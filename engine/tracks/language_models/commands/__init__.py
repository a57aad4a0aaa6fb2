"""Commands of this track: import-scores, judge, labels, predict, transfer, and its parts in ask and
scores. One command, one file."""
