"""Tabs of pages: one folder per page, one file per tab, found by the names that tracks declare."""
