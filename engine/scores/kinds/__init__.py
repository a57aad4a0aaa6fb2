"""Measurements that score methods bring with them, one per file, found and not registered. These load torch."""
