"""Masked = cut = reloaded."""
