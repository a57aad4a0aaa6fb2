"""What an image classifier is, before an audit is asked for."""

from engine.classifiers.images.inspection import inspected

__all__ = ["inspected"]
