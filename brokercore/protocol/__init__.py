"""The RocketMQ remoting protocol without I/O: bytes in, commands and messages out (docs/wire.md).

Nothing here imports asyncio, sockets or Redis, so that server and client share one set of rules and both can be
tested with bytes alone.
"""
