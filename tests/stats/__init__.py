"""Statistics by hand, against slow loops, and in simulation."""
