"""What can be asked of a language model on the spot, beside an audit of it: one question, one
file."""
