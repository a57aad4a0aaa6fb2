"""This track's part in a command that tracks share: ask."""
