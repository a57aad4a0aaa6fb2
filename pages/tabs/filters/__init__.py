"""Tabs of the page Filters."""
