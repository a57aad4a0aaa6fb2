"""The resident engine: one background process per store that keeps models loaded and answers on the
spot."""
