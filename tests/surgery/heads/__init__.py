"""Heads: masks without a trace, cuts, replays, on tiny models and a real one."""
