"""What can be asked of a text classifier on the spot, beside an audit of it: one question, one
file."""
