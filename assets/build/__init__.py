"""Scripts that made what lies in assets: embedded models and data. Nothing here runs when the app runs."""
