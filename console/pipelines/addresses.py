"""Where jobs may go whose texts name an address: to public ones, this installation's services, and what is allowed.

An account typed the address in, and a worker stands inside the platform's network. What an address may be is that of
pushes (docs/operate/queues.md).
"""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from analytics.errors import PipelineFailed
from analytics.pipelines.plan import Plan, Sink, Source, Value
from brokercore.addresses import may_reach
from console.instances.models import Cluster
from console.web.errors import Refused

_OF_QUEUES = re.compile(r"(https?)://([^/:@?#\s\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?/?")
_OF_BROKERS = re.compile(r"(?:https?://)?([^/:@?#\s\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?/?")
_NAME_SERVER_PORT = 9876


def judged(plan: Plan) -> dict[str, dict[str, Value]]:
    """What readers are told of where they may connect to, by the name in small letters of each table with an address.

    Raises Refused for an address where no job may go, or that is none, and PipelineFailed for a name that is not known
    now. Sentences do not tell what a name stands for.
    """
    found: dict[str, dict[str, Value]] = {}
    tables: list[Source | Sink] = [*plan.sources, *plan.sinks]
    for table in tables:
        if "endpoint" not in table.options:
            continue
        endpoint = str(table.options["endpoint"])
        name = table.name
        if table.connector == "mns" or "queue" in table.options:
            if not _is_own_queue_service(_parts(_OF_QUEUES, name, endpoint, "http://host:port")):
                _require(name, [str(_OF_QUEUES.fullmatch(endpoint)[2])])  # type: ignore[index]
                option = "networks" if table.connector == "mns" else "queueNetworks"
                found[table.name.lower()] = {option: ",".join(map(str, settings.SMQ_PUSH_ALLOW))}
        else:
            places = [_parts(_OF_BROKERS, name, one, "host:port") for one in re.split("[;,]", endpoint)]
            _require(name, [host for host, port in places if not _is_own_broker(host, port)])
    return found


def _parts(pattern: re.Pattern[str], table: str, endpoint: str, form: str) -> tuple[str, int]:
    """Host and port, 0 for none, of the address of a table."""
    match = pattern.fullmatch(endpoint)
    if match is None:
        raise Refused(
            "ADDRESS_REFUSED",
            _("The address of the table %(table)s is not of the form %(form)s.") % {"table": table, "form": form},
        )
    *_unused, host, port = match.groups()
    return host, int(port or 0)


def _is_own_queue_service(place: tuple[str, int]) -> bool:
    known = urlsplit(settings.SMQ_ADDRESS)
    return place == (known.hostname, known.port) or _is_here(*place, settings.SMQ_PORT)


def _is_own_broker(host: str, port: int) -> bool:
    number = port or _NAME_SERVER_PORT
    servers = {one for told in Cluster.objects.values_list("namesrv", flat=True) for one in told.split(";")}
    return f"{host}:{number}" in servers or any(_is_here(host, number, _port_of(one)) for one in servers)


def _port_of(server: str) -> int:
    port = server.rpartition(":")[2]
    return int(port) if port.isdecimal() else _NAME_SERVER_PORT


def _is_here(host: str, port: int, of_service: int) -> bool:
    """Whether it is the name that clients are told, of the service at the port."""
    own = settings.ENDPOINT_HOST.lower()
    return port == of_service and (host.lower() == own or host.lower().endswith(f".{own}"))


def _require(table: str, hosts: list[str]) -> None:
    for host in hosts:
        try:
            addresses = {str(one[4][0]) for one in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)}
        except (OSError, UnicodeError) as error:
            raise PipelineFailed(
                f"The address of the table {table} is not known: its name has no address now."
            ) from error
        if not all(may_reach(address, settings.SMQ_PUSH_ALLOW) for address in addresses):
            raise Refused(
                "ADDRESS_REFUSED",
                _(
                    "The address of the table %(table)s is neither public nor one that the platform's administrator "
                    "allows."
                )
                % {"table": table},
            )
