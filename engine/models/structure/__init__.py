"""Transformers without a file of their own: where their heads are, read off modules and config,
then proved."""
