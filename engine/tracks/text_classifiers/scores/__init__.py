"""Ways to score the attention heads of a text classifier: found by being here."""
