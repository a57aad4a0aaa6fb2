"""Ways to a sparse and fair model: one file each, variants of one as its rows; found and not
registered."""
