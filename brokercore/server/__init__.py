"""The embedded broker: name server and broker in one process, messages on Redis Streams (docs/broker.md)."""
