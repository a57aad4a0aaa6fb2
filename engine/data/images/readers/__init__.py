"""Where images come from: one file per source, found because it lies here; a new one is a file with an ImageReader."""
