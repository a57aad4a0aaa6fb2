"""BiFP: mask and weights, whole trainings of a tiny classifier, panels, pages."""
