"""The regions of this installation, which GANTRY_REGIONS lists (docs/operate/regions.md).

A cluster is of one region, and its instances are of the same. Where there is but one region nothing is narrowed to it
and no page speaks of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from console.web.errors import Refused

NOT_FOUND = "BIZ_REGION_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class Region:
    """A region: the ID that calls name, and the name that people are shown."""

    id: str
    name: str

    @property
    def label(self) -> str:
        """Name and ID where they differ: what a choice shows."""
        return self.id if self.name == self.id else f"{self.name}, {self.id}"


def regions() -> list[Region]:
    """All of them; the first is the default."""
    return [Region(one, name) for one, name in settings.REGIONS.items()]


def default() -> str:
    """The region of what nobody said a region of: that of the settings' cluster, the queue service, SQL, the lake."""
    return next(iter(settings.REGIONS))


def are_several() -> bool:
    """Whether lists tell of regions, and calls are narrowed to one."""
    return len(settings.REGIONS) > 1


def allowed() -> str:
    """What a sentence of the management API ends with: `allowed is mq-private`, `allowed are eu-1, eu-2`."""
    return f"allowed {'are' if are_several() else 'is'} {', '.join(settings.REGIONS)}"


def checked(region: str, field: str = "region") -> str:
    """The region, which is there. Raises Refused BIZ_REGION_NOT_FOUND that names it and what is allowed."""
    if region not in settings.REGIONS:
        one = _("The region %(region)s does not exist; allowed is %(allowed)s.")
        several = _("The region %(region)s does not exist; allowed are %(allowed)s.")
        told = {"region": region[:64], "allowed": ", ".join(settings.REGIONS)}
        raise Refused(NOT_FOUND, (several if are_several() else one) % told, field)
    return region


def of_host(host: str) -> str:
    """The region that a host name says, as `mq.console.eu-2.example.com` does; empty for none, or where there is one.

    Of the vendor's addresses each regular region has one (management API, URL form): a label of it is the region's ID.
    """
    if not are_several():
        return ""
    labels = host.lower().rpartition(":")[0].split(".") if ":" in host else host.lower().split(".")
    return next((one for one in settings.REGIONS if one.lower() in labels), "")


def wanted(request: HttpRequest) -> str:
    """The region that a list is narrowed to by `region` of the query string; empty for all, or an unknown one."""
    region = request.GET.get("region", "")
    return region if are_several() and region in settings.REGIONS else ""


def choice(region: str) -> dict[str, object]:
    """What the page of a list that is narrowed to `region` shows: the choice, where there is one."""
    found = [(one.id, one.label) for one in regions()] if are_several() else []
    return {"region_choices": found, "region": region}
