"""What can be measured on a model under a mask: one measurement, one file."""
