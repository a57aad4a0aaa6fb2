"""Charts only fair training has: gap against sparsity, trade-off, effort, training curves, loss
surface."""
