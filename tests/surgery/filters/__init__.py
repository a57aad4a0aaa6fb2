"""Filters: gates, cuts and replays of every architecture, and the FLOP budget."""
