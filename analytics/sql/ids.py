"""The engine's own ids of statements, of the vendor's form: time (UTC), number in this process, which process."""

import itertools
import secrets
import string
from datetime import UTC, datetime

_sequence = itertools.count()
#: Tells the processes apart, as a coordinator's id does in the vendor's.
_PROCESS_ID = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))


def new_query_id() -> str:
    """`yyyyMMdd_HHmmss_nnnnn_xxxxx`, a new one with each call."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{next(_sequence) % 100_000:05d}_{_PROCESS_ID}"
