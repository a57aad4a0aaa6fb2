"""Finished runs, finished measurements and half-finished trainings on disk, each written whole or
not at all."""
