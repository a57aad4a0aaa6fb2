"""What everything rests on, such as the discovery of methods."""
