"""Charts that answer a question: one family per file, each function (run, choice) -> Panel."""
