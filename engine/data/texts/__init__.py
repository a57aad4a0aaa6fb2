"""Labelled texts, plain text for perplexity, and the labelled tasks this project writes itself."""
