"""Trains the embedded demo models from text the project writes itself. Nothing here runs when the app runs."""
