"""What a person does in a real Chromium; skipped where none is installed."""
