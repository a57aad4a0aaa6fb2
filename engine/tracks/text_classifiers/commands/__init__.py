"""Commands of this track: tickets. One command, one file."""
