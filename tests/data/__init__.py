"""What is read from files, and every way in which they can be wrong."""
