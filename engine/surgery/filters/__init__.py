"""Convolution filters: what must be cut together, gates, cut, record, replay, and the FLOP
budget."""
