"""Published bias benchmarks that a model is measured on as they are: one benchmark, one reader."""
