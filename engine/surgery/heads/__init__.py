"""Attention heads: mask, mean ablation, cut, record, replay, and the gradient of every head's
gate."""
