"""The messages of the gRPC protocol (docs/use/grpc.md); `make protocol` makes `messaging_pb2` of messaging.proto."""
