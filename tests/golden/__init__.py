"""What every embedded audit says and shows, kept as text: a move leaves it equal, a new wording
shows as a diff."""
