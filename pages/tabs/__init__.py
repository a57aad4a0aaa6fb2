"""Tabs of the pages Heads and Examples, which several kinds of audit have: found by the names that
tracks declare."""
