"""The operations of the management API, a module a service. Importing this package declares all of them."""

from __future__ import annotations

from console.openapi.operations import (
    adoption,
    alarms,
    buckets,
    clusters,
    consumers,
    grants,
    groups,
    inflow,
    instances,
    job_secrets,
    jobs,
    messages,
    queue_topics,
    queues,
    sql,
    topics,
    tracking,
    trends,
)
from console.openapi.registry import OPERATIONS

__all__ = [
    "OPERATIONS",
    "adoption",
    "alarms",
    "buckets",
    "clusters",
    "consumers",
    "grants",
    "groups",
    "inflow",
    "instances",
    "job_secrets",
    "jobs",
    "messages",
    "queue_topics",
    "queues",
    "sql",
    "topics",
    "tracking",
    "trends",
]
