"""What the two tracks of image classifiers share: the request's images, the dense model, cuts,
tables."""
