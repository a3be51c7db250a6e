"""What the S3 client raises, as the errors of the lake: what is missing, and what does not work, in one sentence."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from analytics.errors import LakeError, LakeUnavailable
from analytics.lake.locations import Place

_log = logging.getLogger(__name__)
_MISSING = {"NoSuchKey", "NoSuchBucket", "NoSuchUpload", "NotFound", "404"}
_REPLACED = {"PreconditionFailed", "412"}


@contextmanager
def told(place: Place, *, missing_is_fine: bool = False) -> Iterator[None]:
    """Errors of the block as LakeError. The storage's own words, with its address, go to the log."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "no code"))
        if code in _MISSING:
            if missing_is_fine:
                return
            raise LakeError(f"there is no file {place.location}", is_missing=True) from error
        if code in _REPLACED:
            raise LakeError(f"{place.location} was replaced while it was read; read it again") from error
        _log.error("the object storage refused %s: %s", place.location, error)
        failed = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
        verb = "failed at" if failed else "refuses the lake's access to"
        raise LakeUnavailable(f"the object storage {verb} {place.location}: it answered {code}") from error
    except NoCredentialsError as error:
        raise LakeUnavailable("the lake has no AccessKey for its object storage") from error
    except BotoCoreError as error:
        _log.error("the object storage did not answer for %s: %s", place.location, error)
        raise LakeUnavailable("the object storage of the lake does not answer; try again in a few minutes") from error
