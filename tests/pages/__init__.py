"""Every page and form, alone and through app.py, with good, empty and hostile runs."""
