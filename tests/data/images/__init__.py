"""Images: published layouts, CSV files, changes, splits, and pickles that are never executed."""
