"""What everything rests on: types, errors, seeds, files, discovery, words. Imports nothing of
ours."""
