"""Ways to compress a language model other than cutting heads, as arms of an audit. One way, one
file, found."""
