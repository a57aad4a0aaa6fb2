"""Audits at real sizes: their time over what cannot be avoided, memory, forecasts, many nodes."""
