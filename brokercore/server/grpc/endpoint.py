"""The gRPC server: its port, its table of calls, its start and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import grpc

from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.server.connections.tls_detection import TlsDetection
from brokercore.server.grpc import clients, receiving, routes, sending
from brokercore.server.grpc.call import status_of
from brokercore.server.grpc.service import Service

if TYPE_CHECKING:
    import socket
    import ssl

    from brokercore.server.broker import Broker

SERVICE = "apache.rocketmq.v2.MessagingService"
GRACE_SECONDS = 5.0
_EXPIRE_SECONDS = 10.0
_BACKLOG = 1024
_MOST_CALLS = 20_000

OPTIONS = (
    ("grpc.max_receive_message_length", 8 << 20),  # a body of 4 MiB, and room to say that it is too large
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.max_metadata_size", 16 << 10),
    # Compression of the transport unpacks before anybody can look at the size; no client of the field uses it.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)

Handler = Callable[..., Awaitable[Any]]


class Unary(NamedTuple):
    """A call with one request and one answer, which begins with a status; it is read once its caller is known."""

    handler: Handler
    request: Any
    response: Any


UNARY: dict[str, Unary] = {
    "QueryRoute": Unary(routes.query_route, pb.QueryRouteRequest, pb.QueryRouteResponse),
    "Heartbeat": Unary(clients.heartbeat, pb.HeartbeatRequest, pb.HeartbeatResponse),
    "SendMessage": Unary(sending.send, pb.SendMessageRequest, pb.SendMessageResponse),
    "QueryAssignment": Unary(routes.query_assignment, pb.QueryAssignmentRequest, pb.QueryAssignmentResponse),
    "AckMessage": Unary(receiving.acknowledge, pb.AckMessageRequest, pb.AckMessageResponse),
    "ForwardMessageToDeadLetterQueue": Unary(
        receiving.forward_to_dead_letters,
        pb.ForwardMessageToDeadLetterQueueRequest,
        pb.ForwardMessageToDeadLetterQueueResponse,
    ),
    "EndTransaction": Unary(sending.end_transaction, pb.EndTransactionRequest, pb.EndTransactionResponse),
    "NotifyClientTermination": Unary(
        clients.terminate, pb.NotifyClientTerminationRequest, pb.NotifyClientTerminationResponse
    ),
    "ChangeInvisibleDuration": Unary(
        receiving.change_invisible_duration, pb.ChangeInvisibleDurationRequest, pb.ChangeInvisibleDurationResponse
    ),
    "RecallMessage": Unary(sending.recall, pb.RecallMessageRequest, pb.RecallMessageResponse),
}


class GrpcEndpoint:
    """Everything that serves gRPC; nothing of it runs before `start`."""

    def __init__(self, broker: Broker, listening: socket.socket, context: ssl.SSLContext | None, *, tls_only: bool):
        self.port = int(listening.getsockname()[1])
        self._listening, self._context, self._tls_only = listening, context, tls_only
        self._service = Service(broker)
        self._service.port = self.port
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=_MOST_CALLS)
        self._outer: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Accept connections."""
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, self._methods())])
        self._service.lines.inner_port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        loop = asyncio.get_running_loop()
        self._outer = await loop.create_server(
            lambda: TlsDetection(self._service.lines.make, self._context, tls_only=self._tls_only),
            sock=self._listening,
            backlog=_BACKLOG,
        )
        self._tasks = [loop.create_task(self._service.renewals.run()), loop.create_task(self._expire())]

    async def close(self) -> None:
        """Accept no more, answer what waits, tell clients to come back later."""
        if self._outer is None:
            return
        self._outer.close()
        stopping = asyncio.ensure_future(self._server.stop(GRACE_SECONDS))
        self._service.broker.waiting.release()
        for stream in list(self._streams):
            stream.cancel()
        await stopping
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._service.lines.close()
        await self._outer.wait_closed()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_SECONDS)
            self._service.sessions.expire()

    # Calls

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        methods = {name: grpc.unary_unary_rpc_method_handler(self._unary(name, call)) for name, call in UNARY.items()}
        methods["ReceiveMessage"] = grpc.unary_stream_rpc_method_handler(self._receive)
        methods["Telemetry"] = grpc.stream_stream_rpc_method_handler(self._telemetry)
        return methods

    def _unary(self, name: str, unary: Unary) -> Handler:
        async def serve(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            call = None
            try:
                call = self._service.open(context)
                await call.turn()
                answer = await unary.handler(self._service, call, call.read(unary.request, data))
            except Exception as error:  # noqa: BLE001 (the border: every failure becomes a status)
                answer = unary.response(status=status_of(error, name))
            finally:
                if call is not None:
                    call.close()
            return answer.SerializeToString()  # type: ignore[no-any-return]

        return serve

    async def _receive(self, data: bytes, context: grpc.aio.ServicerContext) -> None:
        call = None
        try:
            call = self._service.open(context)
            await call.turn()
            async with aclosing(
                receiving.receive(self._service, call, call.read(pb.ReceiveMessageRequest, data))
            ) as parts:
                async for part in parts:
                    await context.write(part.SerializeToString())
        except grpc.aio.InternalError:
            return  # the client's connection has ended: nobody is there to be answered
        except Exception as error:  # noqa: BLE001 (the border, as above)
            for part in receiving.refusal(status_of(error, "ReceiveMessage")):
                await context.write(part.SerializeToString())
        finally:
            if call is not None:
                call.close()

    async def _telemetry(self, _requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> None:
        """A stream has no answer that a status could begin: it ends with one of gRPC's own."""
        task = cast("asyncio.Task[None]", asyncio.current_task())  # gRPC runs every call in one
        self._streams.add(task)
        try:
            await clients.telemetry(self._service, self._service.open(context), context)
        except asyncio.CancelledError:
            if self._outer is None or self._outer.is_serving():
                raise
            task.uncancel()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the broker closes")
        except Exception as error:  # noqa: BLE001 (the border, as above)
            status = status_of(error, "Telemetry")
            await context.abort(_status_code(status.code), status.message)
        finally:
            self._streams.discard(task)


def _status_code(code: pb.Code) -> grpc.StatusCode:
    """The status of gRPC that says the same as a code of the protocol."""
    known = {
        pb.Code.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
        pb.Code.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
        pb.Code.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
        pb.Code.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
    }
    return known.get(code, grpc.StatusCode.INVALID_ARGUMENT)
