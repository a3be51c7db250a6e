"""`manage.py demo`: creates the demo tenant at the first start, mends it at every other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from brokercore.client.errors import ClientError, NoPermission
from brokercore.smq.client import QueueServiceUnavailable
from console.demo import flow, services, team
from console.instances.models import Cluster, Instance
from console.instances.services import ensure_cluster
from console.web.errors import Refused


def _first_cluster() -> Cluster:
    """Raises CommandError where the cluster's instances cannot follow it to another region."""
    try:
        return ensure_cluster()
    except Refused as refused:
        raise CommandError(f"GANTRY_REGIONS: {refused.message}") from refused


class Command(BaseCommand):
    help = "Create or repair the demo tenant, or on a cluster of one's own the team's account, and write demo.json."

    def handle(self, *args: Any, **options: Any) -> None:
        file = settings.HOME / "demo.json"
        try:
            self._first = _first_cluster()
            if not settings.DEMO_DATA and not services.exists():
                self._bring(file)
                return
            if services.exists():
                known = _read(file)
            else:
                services.remove_half_made()
                known = _document(services.create(self._first))
            platform = services.ensure_platform_admin()
            if platform is not None:
                known["platform"] = platform
                # At once: the password exists nowhere else, and what follows can fail.
                _write(file, known | _addresses())
            self._mend()
            self._add_job(known)
            self._add_flow(known)
        except ClientError as error:
            raise CommandError(_outage(error)) from error
        _write(file, known | _addresses())

    def _bring(self, file: Path) -> None:
        """The account of a team that brings its cluster, with all that is there. It is made once."""
        known = _read(file) if team.exists() else _of_team(team.create(self._first))
        if (platform := services.ensure_platform_admin()) is not None:
            known["platform"] = platform
        _write(file, known | _addresses())
        try:
            team.adopt(self._first)
        except ClientError as error:
            self.stderr.write(f"{_outage(error)} Its topics and groups are adopted as soon as it does.")

    def _mend(self) -> None:
        """A cluster of one's own may be away: the console that shows this must start all the same."""
        try:
            services.mend(self._first)
        except ClientError as error:
            if self._first.embedded:
                raise
            self.stderr.write(f"{_outage(error)} Pages show an outage until it does.")

    def _add_job(self, known: dict[str, Any]) -> None:
        """Once, also in a home of an earlier version: who deletes the job does not get it again.

        A console without it is of more use than none.
        """
        if "job" in known:
            return
        try:
            services.ensure_job(known["instance_id"])
        except (ClientError, QueueServiceUnavailable, Refused) as error:
            self.stderr.write(f"The demo has no SQL job {services.JOB} until the next start: {error}")
        else:
            known["job"] = services.JOB

    def _add_flow(self, known: dict[str, Any]) -> None:
        """Once too, and only where there is a database; where that is may change from start to start."""
        known.pop("database", None)
        try:
            database = services.add_database()
            if database is None:
                return
            known["database"] = database
            if "flow" not in known:
                services.ensure_flow(known["instance_id"])
                known["flow"] = flow.TASK
        except (ClientError, Refused, OSError, psycopg.Error) as error:
            self.stderr.write(f"The demo's database is not tracked until the next start: {str(error).strip()}")


def _outage(error: ClientError) -> str:
    """What does not serve, and what to look at."""
    if settings.EMBEDDED_BROKER:
        return f"The broker at {settings.NAMESRV} does not serve: {error.user_message}"
    hint = ""
    if isinstance(error, NoPermission):
        hint = " GANTRY_BROKER_ACCESS_KEY_ID and GANTRY_BROKER_ACCESS_KEY_SECRET must be a super user of it."
    return f"The cluster that GANTRY_NAMESRV names, {settings.NAMESRV}, does not serve: {error.user_message}{hint}"


def _document(issued: dict[str, str]) -> dict[str, Any]:
    keys = {name: issued[name] for name in ("access_key_id", "access_key_secret")}
    return _of_account(services.TENANT, services.TENANT, issued) | keys | {"topic": "flights", "group": "GID_flights"}


def _of_team(issued: dict[str, str]) -> dict[str, Any]:
    return _of_account(team.TENANT, team.SCHEMA, issued)


def _of_account(name: str, schema: str, issued: dict[str, str]) -> dict[str, Any]:
    return {
        "username": f"admin@{name}",
        "password": issued["password"],
        "region": Instance.objects.get(instance_id=issued["instance_id"]).region,
        "instance_id": issued["instance_id"],
        "sql": {"user": name, "password": issued["sql_password"], "database": schema},
    }


def _addresses() -> dict[str, str]:
    """What may change from start to start."""
    host = "127.0.0.1" if settings.HOST in ("0.0.0.0", "::") else settings.HOST  # noqa: S104 - compared, not bound
    return {
        "console": f"http://{host}:{settings.WEB_PORT}",
        "namesrv": settings.NAMESRV,
        "smq_endpoint": f"http://{host}:{settings.SMQ_PORT}",
    }


def _read(file: Path) -> dict[str, Any]:
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{file} is missing or damaged, and its secrets exist nowhere else. Restore it, or start with "
            "an empty home."
        ) from error
    return dict(known)


def _write(file: Path, document: dict[str, Any]) -> None:
    """Readable by the owner alone, and never half-written."""
    document["sql"] |= {"host": "127.0.0.1", "port": settings.SQL_PORT}
    temporary = file.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(document, stream, indent=2)
    temporary.replace(file)
