"""Charts only audits of language models have: heads, correlations, reliability, estimators."""
