"""What can be done to a set of images to see what it does to an audit: one file per change, found
by itself."""
