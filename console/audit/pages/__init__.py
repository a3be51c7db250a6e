"""The trail as its readers see it: pages and files."""
