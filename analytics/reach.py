"""Where the engine may connect to: what its wall opens at its start, by the settings and by the clusters of that time.

A wall knows ports and no hosts, and nothing behind it can look a name up unless names are open: so what matters of an
address is its port, and whether its host is a name.
"""

import ipaddress
import logging
import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from analytics.settings import Settings
from brokercore.client import Admin, Credentials
from brokercore.client.errors import ClientError

log = logging.getLogger(__name__)

#: Found without asking a name server, by the system's own file of hosts.
_KNOWN = frozenset({"localhost"})


@dataclass(frozen=True, slots=True)
class Reach:
    """What a wall opens."""

    #: TCP ports, on any host; None: all.
    ports: frozenset[int] | None
    #: Whether names of hosts can be looked up.
    names: bool

    def has(self, address: str) -> bool:
        """Whether what stands behind this wall may connect to `host:port`."""
        host, port = _split(address)
        return (self.ports is None or port in self.ports) and (self.names or not _is_name(host))


def _nothing() -> Iterable[str]:
    return ()


_further: Callable[[], Iterable[str]] = _nothing


def ask_for_addresses(look: Callable[[], Iterable[str]]) -> None:
    """Let Spark connect to further brokers: `look` is asked for their `host:port` each time that it starts.

    They are those of clusters that are not in the settings. `look` raises nothing.
    """
    global _further  # noqa: PLW0603  what the one engine of the process is told once
    _further = look


def of_a_start(settings: Settings) -> Reach:
    """What Spark that starts now on this machine has to reach. Asks the name servers, and raises nothing."""
    advertised = os.environ.get("GANTRY_BROKER_ADVERTISE", "")
    further = [_split(address) for address in (*_further(), *filter(None, [advertised]))]
    # Ports that were opened are of functions and endpoints, whose names have to be looked up.
    names = bool(settings.storage or settings.namesrv or settings.engine_ports)
    return Reach(
        frozenset({*_ports(settings), *(port for _, port in further if port)}),
        names or any(_is_name(host) for host, _ in further),
    )


def _split(address: str) -> tuple[str, int]:
    """Host and port; 0 where it names none that there is."""
    host, _, port = address.rpartition(":")
    number = int(port) if port.isdecimal() else 0
    return host.strip("[]"), number if number < 1 << 16 else 0


def _is_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower() not in _KNOWN
    return False


def _ports(settings: Settings) -> list[int]:
    """Where brokers and the queue service are, whose messages Python processes read, and the object storage."""
    ports = [*settings.broker_ports, settings.queue_port, *_ports_of_cluster(settings.namesrv), *settings.engine_ports]
    if settings.storage is not None:
        address = urlsplit(settings.storage.endpoint or "https://s3")
        ports.append(address.port or (80 if address.scheme == "http" else 443))
        if not settings.storage.access_key_id:
            ports.append(80)  # the machine's own role, from its cloud
    return ports


def _ports_of_cluster(namesrv: str) -> set[int]:
    """Those that the brokers of a cluster listen on now, as its name servers tell."""
    if not namesrv:
        return set()
    key = os.environ.get("GANTRY_BROKER_ACCESS_KEY_ID"), os.environ.get("GANTRY_BROKER_ACCESS_KEY_SECRET")
    authority = os.environ.get("GANTRY_BROKER_CA")
    try:
        tls = ssl.create_default_context(cafile=authority) if authority else None
        with Admin(namesrv, Credentials(key[0], key[1]) if key[0] and key[1] else None, tls=tls) as admin:
            addresses = list(admin.brokers.addresses().values())
    except (ClientError, OSError) as error:
        log.warning(
            "The name servers %s do not tell where the brokers are, so until it starts again the SQL engine reaches "
            "none but those on the ports of GANTRY_ENGINE_PORTS and RocketMQ's own: %s", namesrv, error,
        )  # fmt: skip
        return set()
    return {port for _, port in map(_split, addresses) if port}
