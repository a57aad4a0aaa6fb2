"""Images: published layouts, CSV files, changes, splits, and pickles that only open as
published."""
