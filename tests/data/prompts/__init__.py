"""Prompts: HolisticBias and CSV files."""
