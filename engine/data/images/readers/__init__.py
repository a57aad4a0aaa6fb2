"""Where images come from: one file per source, found by itself; adding one is adding a file with an
ImageReader."""
