"""One folder per track, deleted with it."""
