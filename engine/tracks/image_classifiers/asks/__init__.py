"""What can be asked of an image classifier on the spot, beside an audit of it: one question, one
file."""
