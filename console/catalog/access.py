"""The first line of every page of the lake."""

from __future__ import annotations

from django.http import Http404

from analytics.errors import LakeError
from analytics.lake import Place, parse_location
from console.accounts import access
from console.accounts.http import Request
from console.catalog import locations
from console.catalog.models import Bucket, BucketRule

READ = "dla:QueryTask"


def pages(request: Request) -> None:
    """Let the caller in to the editor and the lists."""
    access.service(request, "dla", READ)


def bucket(request: Request, name: str, action: str) -> Bucket:
    """A bucket of the caller's account on which the action is allowed; another account's is 404."""
    return place(request, name, action, "")[0]


def place(request: Request, name: str, action: str, key: str) -> tuple[Bucket, Place]:
    """The bucket, and the file or folder `key` in it, on which the action is allowed: what the view then opens.

    What is no place, and what lies in another account's bucket, is 404.
    """
    try:
        wanted = parse_location(f"oss://{name}/{key}")
    except LakeError as error:
        raise Http404(error.user_message) from error
    locations.require_place(request.actor, action, wanted)
    found = Bucket.objects.filter(tenant=request.actor.tenant, name=wanted.bucket).first()
    if found is None:
        raise Http404("no such bucket")
    return found, wanted


def rule(request: Request, bucket_name: str, name: str, action: str) -> BucketRule:
    """A rule of a bucket of the caller's account on which the action is allowed; what is not there is 404."""
    found = bucket(request, bucket_name, action).rules.filter(name=name).first()
    if found is None:
        raise Http404("no such rule")
    return found
