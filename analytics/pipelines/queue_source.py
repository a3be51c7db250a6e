"""What a source `mns` reads: a queue, how its bodies are written, and which inserts have committed what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

from analytics.inflow.messages import QueueEvents
from analytics.pipelines import checkpoints, decoding
from analytics.pipelines.plan import file_name
from brokercore.smq.client import QueueClient

#: In the spool: which inserts read it.
_READERS = "readers"


@dataclass(frozen=True)
class QueueSource:
    """Everything that a reader of a queue needs. The secret is in no plan and no log, as with `table_source`."""

    #: The table's name, by which Spark's logs tell this source's offsets.
    name: str
    endpoint: str
    queue: str
    key_id: str
    secret: str = field(repr=False)
    #: The state's folder.
    state: str
    body: decoding.Format
    most: int = 1
    polling_wait_ms: int = 10_000
    #: The longest that a batch waits for the first message, ms.
    batch_wait_ms: int = 1_000
    delete_retries: int = 3
    start_ms: int | None = None
    #: Whose queue it is, where the key is Gantry's own; else the key's.
    account: str = ""
    #: Where connections may end beside public addresses, separated by commas; None for anywhere.
    networks: str | None = None
    #: How long the queue hides a received message, s; 0 where nobody has asked it.
    hidden_s: int = 0
    #: Makes events of messages, for an inflow task; None for a table, whose rows `body` reads.
    events: QueueEvents | None = None
    #: A batch is waited for until there are so many messages or the first has waited so long, ms; 0 for neither.
    messages_at_once: int = 0
    interval_ms: int = 0
    #: Messages of a batch at most, where they are there; 0 for as many as are received ahead.
    most_in_batch: int = 0

    @property
    def spool(self) -> Path:
        """The folder of this source."""
        return Path(self.state) / folder_of(self.name)

    def client(self) -> QueueClient:
        """A client of the service; a connection for each thread."""
        networks = None if self.networks is None else [ip_network(one) for one in self.networks.split(",") if one]
        return QueueClient(self.endpoint, self.key_id, self.secret, account=self.account, networks=networks)

    def prepare(self) -> None:
        """Make the folder. Raises OSError."""
        self.spool.mkdir(exist_ok=True)

    def note_readers(self, inserts: Sequence[str]) -> None:
        """Note the folders, in the state, of the inserts that read this source. Raises OSError."""
        draft = self.spool / f"{_READERS}.draft"
        draft.write_text(json.dumps(inserts), encoding="utf-8")
        draft.rename(self.spool / _READERS)

    def committed(self) -> int:
        """The last batch that every insert that reads this source has committed; 0 before the first.

        Raises OSError when the state is not here any more.
        """
        inserts = json.loads((self.spool / _READERS).read_text(encoding="utf-8"))
        return min((self._of(Path(self.state) / insert) for insert in inserts), default=0)

    def _of(self, insert: Path) -> int:
        offsets = [json.loads(line) for line in checkpoints.committed(insert) if line.startswith("{")]
        return min((offset[self.name] for offset in offsets if self.name in offset), default=0)


def folder_of(source: str) -> str:
    """The name, in the state, of a source's folder."""
    return f"source-{file_name(source)}"
