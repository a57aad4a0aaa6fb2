"""Ways to score the heads of a language model: final classes, found."""
