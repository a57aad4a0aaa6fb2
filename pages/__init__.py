"""One screen each. Pages read finished runs and never compute; long work is handed to jobs."""
