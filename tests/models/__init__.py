"""What loads, every way in which a checkpoint can be wrong, and the embedded models as shipped."""
