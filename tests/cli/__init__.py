"""Exit codes, JSON, and bad input that writes nothing."""
