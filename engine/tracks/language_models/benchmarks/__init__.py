"""What published bias benchmarks say of log-likelihoods: formulas as published, one benchmark, one
file."""
