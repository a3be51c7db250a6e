"""The messages of the gRPC protocol (docs/grpc.md). `messaging_pb2` is generated from messaging.proto: make protocol."""
