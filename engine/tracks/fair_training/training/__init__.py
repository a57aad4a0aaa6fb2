"""Masks and weights trained together under a fairness constraint (BiFP), and what its baselines
share."""
