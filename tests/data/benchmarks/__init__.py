"""Benchmarks: published layouts, roles, and every way in which a file can be wrong."""
