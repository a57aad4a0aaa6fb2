"""Text the project writes itself: invented groups, the gap planted between them, general text."""
