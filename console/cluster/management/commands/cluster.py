"""`manage.py cluster list|add|change|test|remove`: clusters without the pages; secrets are in files, or asked for."""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.cluster import queries, registry, trial
from console.cluster.registry import Wanted
from console.instances.models import AccessControl, Cluster
from console.web import regions
from console.web.errors import Refused

#: Options whose value is in a file, by the name of the value.
_FILES = {"access_key_secret": "secret", "authority": "authority", "certificate": "certificate", "key": "key"}
_CHOICES = ("yes", "no")


class Command(BaseCommand):
    help = "List, add, change, test and remove clusters. Brokers are never changed."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("list", help="name, origin and name servers of each")
        for act in ("add", "change"):
            one = acts.add_parser(act)
            one.add_argument("name")
            one.add_argument("--namesrv", help="host:port, several separated by ;")
            one.add_argument("--region", help="one of GANTRY_REGIONS; instances go with their cluster")
            one.add_argument("--access-key-id", help="of the account there; its secret is asked for, unless in a file")
            one.add_argument("--proxy", help="host:port of the gRPC proxy")
            one.add_argument("--access-control", choices=[str(value) for value in AccessControl])
            one.add_argument("--tls", choices=_CHOICES)
            one.add_argument("--read-only", choices=_CHOICES)
            for option in _FILES.values():
                one.add_argument(f"--{option}-file", type=Path)
        for act in ("test", "remove"):
            acts.add_parser(act).add_argument("name")

    def handle(self, *args: Any, act: str, **options: Any) -> None:
        try:
            getattr(self, f"_{act}")(**options)
        except Refused as refused:
            raise CommandError(refused.message) from refused

    def _list(self, **_: Any) -> None:
        for cluster in queries.clusters():
            words = [cluster.name, str(cluster.get_origin_display()), cluster.namesrv]
            if regions.are_several():
                words.append(cluster.region)
            self.stdout.write("\t".join([*words, "read-only"] if cluster.read_only else words))

    def _add(self, *, name: str, **options: Any) -> None:
        made = registry.add(actor=None, name=name, wanted=_wanted(Wanted(), options))
        self.stdout.write(f"The cluster {made.name} is added. Nothing was changed there.")

    def _change(self, *, name: str, **options: Any) -> None:
        cluster = _named(name)
        registry.change(actor=None, cluster=cluster, wanted=_wanted(registry.wanted_of(cluster), options))
        self.stdout.write(f"The cluster {name} is changed.")

    def _test(self, *, name: str, **_: Any) -> None:
        """Ends with an error when a step fails."""
        steps = trial.tried(_named(name))
        for step in steps:
            self.stdout.write(f"{step.outcome}\t{step.text}")
        if any(step.outcome is trial.Outcome.FAILED for step in steps):
            raise CommandError(f"The test of {name} failed.")

    def _remove(self, *, name: str, **_: Any) -> None:
        registry.remove(actor=None, cluster=_named(name))
        self.stdout.write(f"The cluster {name} is removed. Its brokers stay as they are.")


def _named(name: str) -> Cluster:
    found = queries.clusters().filter(name=name).first()
    if found is None:
        there = ", ".join(one.name for one in queries.clusters()) or "none"
        raise CommandError(f"There is no cluster {name}; there is: {there}.")
    return found


def _wanted(before: Wanted, options: dict[str, Any]) -> Wanted:
    """What was given, over what there is."""
    plain = ("namesrv", "access_key_id", "proxy", "access_control", "region")
    given = {name: options[name] for name in plain if options.get(name) is not None}
    given |= {name: options[name] == "yes" for name in ("tls", "read_only") if options.get(name)}
    for name, option in _FILES.items():
        if (path := options.get(f"{option}_file")) is not None:
            try:
                given[name] = path.read_text().strip()
            except OSError as error:
                raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    if given.get("access_key_id") and "access_key_secret" not in given:
        given["access_key_secret"] = getpass.getpass(f"Secret of {given['access_key_id']}: ")
    return replace(before, **given)
