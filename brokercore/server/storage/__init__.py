"""Messages, positions and configurations on Redis. docs/storage.md lists every key."""
