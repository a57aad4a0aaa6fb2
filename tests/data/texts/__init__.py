"""Labelled texts, plain text, and the two written tasks."""
