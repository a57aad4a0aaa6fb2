"""Tabs of the page Heads."""
