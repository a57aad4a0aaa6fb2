"""Commands of this track: experiment. One command, one file."""
