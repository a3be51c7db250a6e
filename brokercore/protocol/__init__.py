"""The RocketMQ remoting protocol without I/O: bytes in, commands and messages out (docs/develop/wire.md).

Nothing here imports asyncio, sockets or Redis, so that server and client share one set of rules and both can be
tested with bytes alone.

`command` is requests and responses and the frames they come in, `codes` their numbers, `signature` who signed them,
`tls` what they are packed in. `message` with `properties` and `ids` is what they carry, `filters` and `sql92` which of
it a consumer wants. `bodies/` are JSON bodies, read with `fastjson`; `grpc/` is the other protocol.
"""
