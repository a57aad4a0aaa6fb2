"""The project's own text: the same every time, and with the gap it says it has."""
