"""Ways to a sparse and fair model: one file each, found and not registered."""
