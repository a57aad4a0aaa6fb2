"""Labelled images with groups, and the faces this project draws itself."""
