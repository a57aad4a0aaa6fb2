"""What can be asked of a model of fair training on the spot, beside an audit of it: one question,
one file."""
