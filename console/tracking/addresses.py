"""Where a capture may connect to: to public addresses, and to what the platform's administrator allows.

An account typed the host in, and what captures stands inside the platform's network. What an address may be is that of
pushes and of the endpoints of SQL jobs (docs/operate/queues.md). The address that was judged is the one that is
connected to, so that a name cannot stand for another one meanwhile; it is looked up again for each connection.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address

from django.conf import settings
from django.utils.translation import gettext as _

from analytics.inflow.changes import CaptureFailed
from analytics.inflow.source import Source
from brokercore.addresses import may_reach
from console.accounts.crypto import decrypt
from console.tracking.models import TrackingTask
from console.web.errors import Refused

REFUSED = "ADDRESS_REFUSED"
#: Names and addresses; no folder of a socket, and no list.
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?\.?|\[?[0-9A-Fa-f:.]{2,45}\]?")


def require_host(host: str) -> None:
    """Raise Refused for what is neither a name nor an address, such as the folder of a socket."""
    if not _HOST.fullmatch(host):
        raise Refused(
            "HOST_INVALID", _("A host is a name or an IP address; lists and folders of sockets are neither."), "host"
        )


def judged(host: str) -> str:
    """The address of a host, where captures may go.

    Raises Refused for one where they may not, and CaptureFailed for a name that has no address now. Neither tells what
    a name stands for.
    """
    require_host(host)
    try:
        told = {str(one[4][0]) for one in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise CaptureFailed(f"The host {host} is not known: its name has no address now.", "UNREACHABLE") from error
    if not all(may_reach(address, settings.SMQ_PUSH_ALLOW) for address in told):
        raise Refused(
            REFUSED, _("The host is neither public nor one that the platform's administrator allows."), "host"
        )
    return min(told, key=lambda address: (ip_address(address.partition("%")[0]).version, address))


def source_of(task: TrackingTask, password: str | None = None) -> Source:
    """What a capture connects to now, by the task's password unless another one is to be tried.

    Raises Refused and CaptureFailed as `judged` does.
    """
    return Source(
        kind="postgresql" if task.kind == "postgresql" else "mysql",
        host=task.host.strip("[]"),
        address=judged(task.host),
        port=task.port,
        user=task.user,
        password=decrypt(task.password_encrypted) if password is None else password,
        name=task.slot,
        database=task.database,
        tls="verified" if task.tls == "verified" else "required" if task.tls == "required" else "off",
        ca=task.ca,
    )
