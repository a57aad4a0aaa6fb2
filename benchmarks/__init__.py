"""What is claimed about speed and agreement, runnable: `python -m benchmarks.NAME [--json]`."""
