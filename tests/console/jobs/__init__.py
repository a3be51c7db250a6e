"""SQL jobs of the console."""
