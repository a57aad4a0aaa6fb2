"""Tabs of the page Training."""
