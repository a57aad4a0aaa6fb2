"""The resident engine: wire, place, memory, lines of questions and of jobs, and what may happen to
its process."""
