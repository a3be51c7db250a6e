"""Change tracking tasks, and the consumer groups that read what they keep."""

from __future__ import annotations

import secrets
import string
import time
from datetime import timedelta
from pathlib import Path

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics.inflow.event_reader import Range, Reader
from console.accounts.models import Tenant
from console.web.languages import gettext_lazy, pgettext_lazy

#: A capturing process that was silent for this long has lost its tasks.
LEASE = timedelta(seconds=15)
#: What the inflow tasks that read by a group call themselves, before their name.
_INFLOW_TASK = "The inflow task "
_LETTERS = string.ascii_lowercase + string.digits


class Kind(models.TextChoices):
    """What is captured."""

    POSTGRESQL = "postgresql", gettext_lazy("PostgreSQL")
    MYSQL = "mysql", gettext_lazy("MySQL or MariaDB")


class Tls(models.TextChoices):
    """How the database is reached."""

    OFF = "off", gettext_lazy("Not encrypted")
    REQUIRED = "required", gettext_lazy("Encrypted, any certificate")
    VERIFIED = "verified", gettext_lazy("Encrypted, certificate verified")


class State(models.TextChoices):
    """How a task is. One that is deleted is there until what it has made in the database and its log are removed."""

    STARTING = "starting", gettext_lazy("Starting")
    NORMAL = "normal", pgettext_lazy("state of a task", "Normal")
    FAILED = "failed", gettext_lazy("Failed")
    PAUSED = "paused", gettext_lazy("Paused")
    DELETING = "deleting", gettext_lazy("Being deleted")


#: States in which a process has, or will have, something to do.
BUSY = (State.STARTING, State.NORMAL, State.FAILED, State.DELETING)


def new_task_id() -> str:
    """Short, and valid in the names of what is made in databases."""
    return "dts" + "".join(secrets.choice(_LETTERS) for _ in range(10))


class TrackingTask(models.Model):
    """One database whose changes are kept.

    `position` is where the capture goes on while the log ends with the entry `position_at`; once the log has more, its
    last entry tells it. `fence` counts claims: each is the number of the log's writer, so that a process which was
    given up can write neither the row nor the log. `revision` counts what users change: a capture that is open is
    opened anew.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="tracking_tasks")
    task_id = models.CharField(max_length=16, unique=True, default=new_task_id)
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    host = models.CharField(max_length=253)
    port = models.PositiveIntegerField()
    database = models.CharField(max_length=63, blank=True, help_text="of PostgreSQL")
    user = models.CharField(max_length=80)
    password_encrypted = models.TextField()
    tables = models.TextField(help_text="patterns schema.table, one a line")
    tls = models.CharField(max_length=8, choices=Tls.choices, default=Tls.OFF)
    ca = models.TextField(blank=True, help_text="authorities that are trusted, PEM")
    snapshot = models.BooleanField(default=False, help_text="whether the rows that are there come first")
    retention_days = models.PositiveIntegerField(default=7)
    state = models.CharField(max_length=8, choices=State.choices, default=State.STARTING, db_index=True)
    code = models.CharField(max_length=32, blank=True, help_text="of what is wrong, such as LOG_OFF")
    sentence = models.TextField(blank=True)
    mend = models.TextField(blank=True, help_text="statements that mend it")
    revision = models.PositiveIntegerField(default=0)
    position = models.TextField(blank=True, help_text="in the source's own words; empty: nothing was captured yet")
    begins_anew = models.BooleanField(default=False, help_text="the next capture forgets where the last one was")
    position_at = models.PositiveBigIntegerField(default=0)
    events = models.PositiveBigIntegerField(default=0, help_text="number of the last event in the log")
    first_ms = models.BigIntegerField(null=True, help_text="time of the oldest event in the log")
    last_ms = models.BigIntegerField(null=True, help_text="time of the newest")
    rate = models.FloatField(null=True, help_text="events a second, lately")
    lag_bytes = models.BigIntegerField(null=True, help_text="of the database's log that wait for the capture")
    lag_ms = models.BigIntegerField(null=True)
    fence = models.PositiveBigIntegerField(default=0)
    worker = models.CharField(max_length=64, blank=True)
    heartbeat_at = models.DateTimeField(null=True, help_text="the process's last sign of life")
    normal_at = models.DateTimeField(null=True, help_text="it has captured since")
    deleted_at = models.DateTimeField(null=True, help_text="asked to be deleted")
    creator = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=~Q(state="deleting"), name="one_tracking_task_of_a_name"
            )
        ]

    def __str__(self) -> str:
        return self.task_id

    @property
    def patterns(self) -> list[str]:
        """The tables that are captured."""
        return self.tables.split()

    @property
    def is_held(self) -> bool:
        """Whether a process captures it, or tries to."""
        return bool(self.worker) and self.heartbeat_at is not None and timezone.now() - self.heartbeat_at < LEASE

    @property
    def is_normal(self) -> bool:
        """Whether its changes are being kept at this moment."""
        return self.state == State.NORMAL and self.is_held

    @property
    def shown_state(self) -> State:
        """Its state as people are told it: what is normal and has no process is being started."""
        is_lost = self.state == State.NORMAL and not self.is_held
        return State.STARTING if is_lost else State(self.state)

    @property
    def word(self) -> str:
        """The same in a word."""
        return str(self.shown_state.label)

    @property
    def before_ms(self) -> int:
        """Events of before this time are kept no longer, unless a reader is slow, epoch ms."""
        return int((time.time() - self.retention_days * 86_400) * 1000)

    @property
    def slot(self) -> str:
        """What slot and publication are called in PostgreSQL."""
        return f"gantry_{self.task_id}"

    @property
    def log(self) -> str:
        """The folder of the lake that has its log, and nothing else."""
        from console.catalog.storage import TRACKING_BUCKET  # only then: every process loads the models

        return f"oss://{TRACKING_BUCKET}/{self.tenant.uid}/{self.task_id}/"

    @property
    def folder(self) -> Path:
        """The log's folder on this machine. Raises LakeError where the lake is no folder."""
        from analytics import lake

        return Path(lake.lake_path(self.log))

    def range(self) -> Range:
        """What is in the log now. Raises LakeError, OSError, LogDamaged."""
        with Reader(self.folder) as reader:
            return reader.range()


class ConsumerGroup(models.Model):
    """Who may read a task's log by account and password. One client only: `holder` is what has it.

    Events behind `read_up_to` are kept for longer than the task says (`console.tracking.retention`).
    """

    task = models.ForeignKey(TrackingTask, on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(max_length=64)
    account = models.CharField(max_length=64)
    password_hash = models.CharField(max_length=255)
    holder = models.CharField(max_length=64, blank=True, help_text="key of what reads by it; empty: nothing does")
    holder_name = models.CharField(max_length=128, blank=True, help_text="what pages call that")
    read_up_to = models.PositiveBigIntegerField(
        null=True, help_text="number of the last event that its reader is done with; null: it has never read"
    )
    lost_at = models.DateTimeField(null=True, help_text="when events were removed that its reader had still to read")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["task", "name"], name="one_consumer_group_of_a_name")]

    @property
    def read_by(self) -> str:
        """What has it, in the language of whoever is told; empty where nothing has. It is kept in English."""
        name = self.holder_name.removeprefix(_INFLOW_TASK)
        return _("The inflow task %(name)s") % {"name": name} if name != self.holder_name else name

    @property
    def unread(self) -> int | None:
        """Events that its reader has still to read; None for one that has never read."""
        return max(0, self.task.events - self.read_up_to) if self.read_up_to is not None else None

    def __str__(self) -> str:
        return self.name
