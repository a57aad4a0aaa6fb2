"""Transformers of any family: where their heads are, read and proved; and how heads are cut."""
