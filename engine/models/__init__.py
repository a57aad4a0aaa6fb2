"""Language models, text and image classifiers and judges: found, checked at the door, loaded,
run."""
