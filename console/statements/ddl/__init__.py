"""Definitions of schemas and tables as text: read, not decided. Pure."""
