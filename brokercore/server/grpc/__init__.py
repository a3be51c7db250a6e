"""The gRPC door of the broker: RocketMQ 5 clients without a proxy (docs/grpc.md)."""
