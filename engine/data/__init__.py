"""Prompts, texts and images from names or paths: read, checked, split, sampled, with a digest of
all of it."""
