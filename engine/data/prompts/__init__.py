"""Prompts about subgroups: HolisticBias, the FASP files, any CSV."""
