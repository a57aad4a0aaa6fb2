"""Phrasing, shared panels, exports, and what every track must declare."""
