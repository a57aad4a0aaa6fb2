"""Mirrors engine/ folder by folder; what a test needs beyond its file lies in tiny, places and
conftest."""
