"""Requests, jobs, executors and run ids, whatever the track."""
