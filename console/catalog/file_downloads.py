"""Files of the lake as downloads, piece by piece: they can be larger than memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO

from asgiref.sync import sync_to_async
from django.http import Http404, StreamingHttpResponse
from django.utils.http import content_disposition_header

from analytics import lake
from analytics.errors import LakeError, LakeUnavailable
from analytics.lake import Place

_CHUNK_BYTES = 256 * 1024


def attachment(
    location: str | Place, name: str, content_type: str = "application/octet-stream"
) -> StreamingHttpResponse:
    """The file at a location, to be saved under `name`. Raises Http404 when it is not there (any more)."""
    try:
        file = lake.open_file(location)
    except LakeUnavailable:
        raise
    except LakeError as error:
        raise Http404(error.user_message) from error
    response = StreamingHttpResponse(_chunks(file), content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """The file piece by piece, read in threads."""
    read = sync_to_async(file.read, thread_sensitive=False)
    with file:
        while piece := await read(_CHUNK_BYTES):
            yield piece
