"""An audit under way, whatever its track: request, session, measurements, executors, jobs, verification."""
