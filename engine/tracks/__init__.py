"""One folder per track, found by being here. A track imports everything below it and never another
track."""
