"""Tabs of the page Examples."""
