"""Whole or not at all, nothing outside the store, damage noticed."""

META = {
    "title": "t",
    "created": "2026-01-01",
    "model": {"name": "m"},
    "request": {"axes": ["a"], "methods": ["fasp"]},
}
"""What a run must say of itself."""
