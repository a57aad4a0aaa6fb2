"""IG-BERT: conductance, procedures, whole audits of a tiny classifier, panels, pages."""
