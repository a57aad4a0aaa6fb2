"""Commands of this track: universal, and its parts in scores and evaluate. One command, one
file."""
