"""Commands of this track: fairtrain. One command, one file."""
