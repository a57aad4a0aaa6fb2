"""Tables of results in the documents, read off the embedded runs: one file per track,
`table(run)`."""
