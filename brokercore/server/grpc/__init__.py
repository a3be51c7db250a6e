"""The gRPC service of the broker: RocketMQ 5 clients without a proxy (docs/use/grpc.md).

`listener` (bytes from outside) → `endpoint` (server and table of calls) → `service` (signature; what all calls
share) → `call` (asks the broker's handlers, and says what came of it). The calls: `routes`, `sending`, `receiving`,
`clients`. What they have in common: `sessions` (who listens, and works on what) and `messages` (both forms of what is
said).
"""
