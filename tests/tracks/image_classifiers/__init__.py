"""PW loss: methods, whole audits of a tiny classifier, experiments, panels, pages."""
