"""Commands of this track: predict, import-scores. One command, one file."""
