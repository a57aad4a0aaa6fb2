"""Where labelled texts come from: one file per source, found because it lies here; a new one is a file with a
TextReader."""
