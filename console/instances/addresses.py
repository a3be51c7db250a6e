"""Access points: how clients, hints and pages address an instance."""

from __future__ import annotations

import socket
import threading
import time
from functools import lru_cache

from django.conf import settings

from console.instances.models import Cluster, Instance

#: A name that no instance has: where it leads somewhere, so do the names of all instances.
_SOME_INSTANCE = "MQ_INST_0_resolves"
#: A page waits so long for the system's answer; the next one has it.
_PATIENCE_S = 0.5
#: Names are looked up anew after this time.
_KNOWN_S = 600


def access_point(instance: Instance) -> str:
    """The instance's own name before that of the name server, as the vendor writes it, for hints (`mq-endpoint`).

    A default instance, whose names have no prefix on the wire, has that of the name server alone: an account has one.
    """
    label = f"{instance.instance_id}." if instance.independent_naming else ""
    cluster = instance.cluster
    return _address(label, cluster.namesrv.partition(";")[0], _host_of(cluster))


def tcp_address(instance: Instance) -> str:
    """What a client connects to (`NAMESRV_ADDR`): the access point where such names resolve, else the name servers.

    With the name servers alone a client says its instance by a setting of its own (`INSTANCE_ID`, a namespace).
    """
    if not instance.independent_naming or names_resolve(instance.cluster):
        return access_point(instance)
    return name_servers(instance.cluster)


def name_servers(cluster: Cluster) -> str:
    """`host:port` of the name servers as clients reach them, several separated by `;`."""
    if cluster.from_settings and settings.ENDPOINT_HOST != "localhost":
        return f"{settings.ENDPOINT_HOST}:{cluster.namesrv.partition(';')[0].rpartition(':')[2]}"
    return cluster.namesrv


def access_point_pattern() -> str:
    """How the access points of this copy look."""
    return _address("MQ_INST_….", settings.NAMESRV, settings.ENDPOINT_HOST)


def names_resolve(cluster: Cluster) -> bool:
    """Whether this machine finds `MQ_INST_….<host of the cluster>`: stock Debian finds none below `localhost`.

    Until the system has answered they are taken not to.
    """
    return _looked_up(_host_of(cluster), int(time.monotonic() // _KNOWN_S)).is_found()


class _LookUp:
    """A question to the system, which can take as long as a name server that does not answer."""

    def __init__(self, host: str) -> None:
        self._host, self._found = host, False
        self._thread = threading.Thread(target=self._ask, name="access-points", daemon=True)
        self._thread.start()

    def is_found(self) -> bool:
        """The answer, once it is there."""
        self._thread.join(_PATIENCE_S)
        return self._found

    def _ask(self) -> None:
        try:
            socket.getaddrinfo(f"{_SOME_INSTANCE}.{self._host}", None)
        except (OSError, UnicodeError):
            return
        self._found = True


@lru_cache(maxsize=64)
def _looked_up(host: str, _period: int) -> _LookUp:
    return _LookUp(host)


def _host_of(cluster: Cluster) -> str:
    """GANTRY_ENDPOINT_HOST stands for the first cluster; another one is where its first name server is."""
    first = cluster.namesrv.partition(";")[0]
    return settings.ENDPOINT_HOST if cluster.from_settings else first.rpartition(":")[0]


def _address(label: str, namesrv: str, host: str) -> str:
    return f"http://{label}{host}:{namesrv.rpartition(':')[2]}"
