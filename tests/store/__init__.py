"""Whole or not at all, nothing outside the store, damage noticed."""
