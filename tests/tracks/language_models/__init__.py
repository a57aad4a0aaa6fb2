"""FASP: estimators, selection, whole audits of a tiny world, panels, pages."""
