"""Transformers of any family: where their heads are, read off modules and config, proved, and how they are cut."""
