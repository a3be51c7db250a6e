"""Pages of SQL jobs."""
