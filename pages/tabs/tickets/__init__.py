"""Tabs of the page Tickets."""
