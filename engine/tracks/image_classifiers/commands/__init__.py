"""This track's parts in commands that tracks share: ask and evaluate."""
