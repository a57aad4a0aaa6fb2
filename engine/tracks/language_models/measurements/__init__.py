"""What can be measured on a model under a mask: one kind, one file."""
