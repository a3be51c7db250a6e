"""Whose turn it is: which waiting task a free place of a worker goes to, decided in the database (docs/use/sql.md).

A message to the workers only says that there is work. The account with the fewest running statements is next, of
several the one whose last statement was started longest ago, and of that account the statement that waits longest. So
a thousand statements of one account delay another account's first by no more than the one that ends next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, DateTimeField, Exists, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics.specs import new_query_id
from console.accounts.models import Tenant
from console.sql import lifecycle
from console.sql.models import ENDED, QueryTask, TaskStatus
from console.web.errors import Refused

#: A statement whose client waits stands in its account's queue as if it had come this much earlier.
HEAD_START = timedelta(seconds=5)
#: For this long a statement that stopped the engine for good is remembered.
REMEMBERED_FOR = timedelta(hours=1)
#: An account with this many different ones of them is trusted with none: all its statements run alone for that time.
MOST_KILLERS = 3
#: How often the choice is made anew when other workers were faster.
_TRIES = 20
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    """A waiting task."""

    task_id: str
    tenant_id: int
    synchronous: bool


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """A waiting task that may be run; the smallest is next."""

    running: int
    served_at: datetime
    due: datetime
    task: _Waiting


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which waiting tasks a call is for, as `claim` says."""

    asynchronous: bool
    alone: bool
    without: Collection[str]

    def of(self, tasks: QuerySet[QueryTask]) -> QuerySet[QueryTask]:
        """Those of the tasks that wait for it, whether a client waits for them or not."""
        losses = {"engine_losses__gt": 0} if self.alone else {"engine_losses": 0}
        waiting = tasks.filter(status=TaskStatus.QUEUED, **losses)
        return waiting.exclude(pk__in=self.without) if self.without else waiting


@dataclass(frozen=True, slots=True)
class _Running:
    """How many statements of an account run; `asynchronous` of them have no client that waits."""

    number: int
    asynchronous: int

    def leaves_a_place(self, *, synchronous: bool) -> bool:
        """Whether one more may run."""
        limit = settings.SQL_RUNNING_PER_TENANT
        return self.number < limit and (synchronous or self.asynchronous < most_asynchronous(limit))


def most_asynchronous(limit: int) -> int:
    """How many of so many places statements may take that no client waits for: a quarter is kept for the others.

    So the statement of somebody who waits does not stand behind the account's own long ones. A single place is for all.
    """
    return limit - max(1, limit // 4) if limit > 1 else limit


def claim(
    worker: str, *, asynchronous: bool = True, alone: bool = False, without: Collection[str] = ()
) -> QueryTask | None:
    """Claim the task whose turn it is for `worker`; None when there is none that may run now.

    `asynchronous=False` leaves out those that no client waits for; `alone=True` takes those that lost an engine before,
    which no other call is given; those of `without` are left for another time, or another worker. Never more than
    SQL_RUNNING_PER_TENANT run for a tenant, over all workers, and of these never more than `most_asynchronous` that no
    client waits for.
    """
    choice = _Choice(asynchronous, alone, without)
    waiting = _first_two(choice)
    if len(waiting) < 2:  # nothing has to be chosen
        return _try_claim(waiting[0], worker) if waiting else None
    for _unused in range(_TRIES):
        turns = sorted(_turns(choice))
        if not turns:
            return None
        for turn in turns:
            task = _try_claim(turn.task, worker)
            if task is not None:
                return task
    return None


def _first_two(choice: _Choice) -> list[_Waiting]:
    """Two waiting tasks, or all when there are fewer: a look that costs little."""
    waiting = choice.of(QueryTask.objects.all()).order_by()
    if not choice.asynchronous:
        waiting = waiting.filter(synchronous=True)
    return [_Waiting(*row) for row in waiting.values_list("pk", "tenant_id", "synchronous")[:2]]


def suspects_wait() -> bool:
    """Whether a task waits that has to be run alone."""
    return QueryTask.objects.filter(status=TaskStatus.QUEUED, engine_losses__gt=0).exists()


def has_waiting(tenant_id: int) -> bool:
    """Whether a statement of the tenant waits."""
    return QueryTask.objects.filter(status=TaskStatus.QUEUED, tenant=tenant_id).exists()


def admit(tenant: Tenant) -> None:
    """Call inside the transaction that adds a waiting task. Raises Refused when the tenant has too many of them."""
    _one_at_a_time(tenant.pk)
    limit = settings.SQL_WAITING_PER_TENANT
    if QueryTask.objects.filter(status=TaskStatus.QUEUED, tenant=tenant).count() >= limit:
        raise Refused(
            "TOO_MANY_WAITING",
            _(
                "%(limit)s statements of this account are already waiting, which is the limit. Submit "
                "again when some of them have ended."
            )
            % {"limit": limit},
        )


def known_losses(tenant: Tenant, statement: str) -> int:
    """The losses that a new task begins with: 1 for a statement that is run alone, and once only, from the start.

    Those are the statements that cost the engine within the last hour and are not tried again, however they ended, and
    all of an account that has MOST_KILLERS of them.
    """
    killers = set(
        QueryTask.objects.filter(tenant=tenant, status__in=ENDED, engine_losses__gte=lifecycle.MAX_LOSSES)
        .filter(update_time__gte=timezone.now() - REMEMBERED_FOR)
        .values_list("statement", flat=True)[:100]
    )
    return int(statement in killers or len(killers) >= MOST_KILLERS)


def _turns(choice: _Choice) -> Iterator[_Turn]:
    """The first waiting task of each tenant that has one and is below its limit."""
    kinds = [True, False] if choice.asynchronous else [True]
    for tenant_id, number, without_client, served_at, *firsts in _queues(choice):
        running = _Running(number, without_client)
        heads = [
            (submitted - HEAD_START if synchronous else submitted, _Waiting(task_id, tenant_id, synchronous))
            for synchronous, task_id, submitted in ((True, *firsts[:2]), (False, *firsts[2:]))
            if task_id and synchronous in kinds and running.leaves_a_place(synchronous=synchronous)
        ]
        if heads:
            yield _Turn(number, served_at, *min(heads))


def _queues(choice: _Choice) -> Iterator[tuple[Any, ...]]:
    """Per tenant with a waiting task: id, running, those of them that no client waits for, last start, first of either
    kind with its time.
    """
    own = QueryTask.objects.filter(tenant=OuterRef("pk"))
    waiting = choice.of(own)
    running = own.filter(status=TaskStatus.RUNNING).order_by().values("tenant").annotate(number=Count("pk"))
    last = own.filter(started_at__isnull=False).order_by("-started_at")
    columns: dict[str, Any] = {
        "running": Coalesce(Subquery(running.values("number")), 0, output_field=IntegerField()),
        "without_client": Coalesce(
            Subquery(running.filter(synchronous=False).values("number")), 0, output_field=IntegerField()
        ),
        "served_at": Coalesce(Subquery(last.values("started_at")[:1]), _NEVER, output_field=DateTimeField()),
    }
    for name, synchronous in (("waited_for", True), ("other", False)):
        first = waiting.filter(synchronous=synchronous).order_by("create_time", "pk")
        columns |= {name: Subquery(first.values("pk")[:1]), f"{name}_since": Subquery(first.values("create_time")[:1])}
    rows: QuerySet[Tenant] = Tenant.objects.filter(Exists(waiting)).annotate(**columns)
    yield from rows.values_list("pk", *columns)


def _try_claim(waiting: _Waiting, worker: str) -> QueryTask | None:
    """Claim the task, unless another worker was faster or its tenant has reached the limit meanwhile."""
    with transaction.atomic():
        _one_at_a_time(waiting.tenant_id)
        kinds = QueryTask.objects.filter(status=TaskStatus.RUNNING, tenant=waiting.tenant_id)
        synchronous = list(kinds.values_list("synchronous", flat=True))
        running = _Running(len(synchronous), synchronous.count(False))
        if not running.leaves_a_place(synchronous=waiting.synchronous):
            return None
        return lifecycle.claim(waiting.task_id, worker, new_query_id())


def _one_at_a_time(tenant_id: int) -> None:
    """Let no other transaction count the tenant's tasks until this one has ended; SQLite has one writer anyway."""
    if connection.features.has_select_for_update:
        Tenant.objects.select_for_update(no_key=True).filter(pk=tenant_id).values("pk").first()
