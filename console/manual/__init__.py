"""The project's own documentation, as pages of the console."""
