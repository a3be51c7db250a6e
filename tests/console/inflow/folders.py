"""Sources of events of tests: folders of an account's own lake, without a database behind them.

Each folder `oss://<bucket>/event-logs/<name>/` in which an event log was begun is a source of the name `<name>`, whose
one consumer group has the same name and no password. What is held is not written down.
"""

from __future__ import annotations

from pathlib import Path

from analytics import lake
from analytics.errors import LakeError
from analytics.inflow.event_reader import Reader
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.catalog import locations
from console.catalog.models import Bucket
from console.pipelines.event_logs import Holder, Login, Source, require_source
from console.web.errors import Refused

FOLDER = "event-logs"


class FoldersOfTheLake:
    """`console.pipelines.event_logs.Sources`."""

    def sources(self, actor: Actor) -> list[Source]:
        """Those of which the actor may read the folder, by name."""
        found = {}
        for bucket in Bucket.objects.filter(tenant=actor.tenant).values_list("name", flat=True):
            for folder in _folders(bucket):
                location = f"oss://{bucket}/{FOLDER}/{folder.name}/"
                allowed = actor.decide(
                    locations.READ, locations.resource_of(actor, lake.parse_location(location)), owner=actor.tenant
                ).allowed
                if allowed:
                    found[folder.name] = _source(folder, location)
        return [found[name] for name in sorted(found)]

    def source(self, actor: Actor, source_id: str) -> Source | None:
        """One of them."""
        return next((one for one in self.sources(actor) if one.id == source_id), None)

    def hold(self, actor: Actor, source_id: str, group: str, login: Login, holder: Holder) -> None:
        """Any number of tasks may read a folder."""
        if group not in require_source(actor, source_id).groups:
            raise Refused("GROUP_NOT_FOUND", f"{source_id} has no consumer group {group}.", "group")

    def release(self, tenant: Tenant, holder: Holder) -> None:
        """Nothing is held."""

    def reached(self, holder: str, sequence: int) -> None:
        """Folders keep all that they have."""


def _folders(bucket: str) -> list[Path]:
    try:
        place = Path(lake.lake_path(f"oss://{bucket}/{FOLDER}/"))
        return [one for one in place.iterdir() if one.is_dir()]
    except (LakeError, OSError):
        return []


def _source(folder: Path, location: str) -> Source:
    with Reader(folder) as reader:
        told = reader.range()
    return Source(folder.name, folder.name, location, told.first_ms, told.last_ms, (folder.name,), shows_events=True)
