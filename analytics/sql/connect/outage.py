"""Tells a Spark Connect server that is gone, or lets us not in, from a statement that failed."""

from analytics.errors import AnalyticsError, EngineLost, EngineUnavailable
from analytics.sql.connect import channel

#: The server does not know the session or the operation any more: it was started anew, or gave them up.
_FORGOTTEN = (
    "INVALID_HANDLE.SESSION_CHANGED",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "INVALID_HANDLE.SESSION_CLOSED",
    "INVALID_HANDLE.OPERATION_NOT_FOUND",
    "INVALID_HANDLE.OPERATION_ABANDONED",
)
_LOST = "The Spark Connect server stopped while the statement ran. Read less, or try again."


def of(error: BaseException) -> AnalyticsError | None:
    """EngineLost or EngineUnavailable, when that is what an error of PySpark's client means; else None."""
    import grpc
    from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException

    if not isinstance(error, SparkConnectException):
        closed = isinstance(error, ValueError) and "closed channel" in str(error)
        return EngineLost(_LOST, is_remote=True) if closed else None
    status = error.getGrpcStatusCode() if isinstance(error, SparkConnectGrpcException) else None
    if status in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
        return EngineUnavailable(
            f"The Spark Connect server {channel.address()} does not accept the token of GANTRY_SPARK_CONNECT_TOKEN;"
            " it must be the one that the server was started with."
        )
    text = str(error)
    if status == grpc.StatusCode.UNAVAILABLE or any(name in text for name in _FORGOTTEN):
        return EngineLost(_LOST, is_remote=True)
    return None


def is_forgotten(error: BaseException) -> bool:
    """Whether a server answers that does not know our session any more."""
    return any(name in str(error) for name in _FORGOTTEN) or "closed channel" in str(error)


def unreachable(error: BaseException) -> EngineUnavailable:
    """What is said when the server is gone before anything was executed."""
    found = of(error)
    if isinstance(found, EngineUnavailable):
        return found
    return EngineUnavailable(f"The Spark Connect server {channel.address()} does not answer.", is_outage=True)
