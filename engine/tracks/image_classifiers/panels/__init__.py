"""Charts only audits of filters have: speedup, the PW loss and its parts, loss shares, filter
scores, latency."""
