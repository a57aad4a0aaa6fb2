"""Whether the statistics hold what they say: simulated worlds with known truth, and the demo. One
family, one file.

A file has `measures(quick: bool) -> list[Measure]`; it is found by being here. `quick` is a small
run for tests: its numbers are too wide to judge a bar.
"""
