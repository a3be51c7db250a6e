"""Pages of messages, consumer status and dead letters."""
