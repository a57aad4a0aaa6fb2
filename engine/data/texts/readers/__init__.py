"""Where labelled texts come from: one file per source, found by itself; a new one is a file with a
TextReader."""
