from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

pytestmark = pytest.mark.django_db


def test_a_database_of_a_newer_release_is_refused_by_name() -> None:
    MigrationRecorder(connection).record_applied("accounts", "9999_from_the_future")
    with pytest.raises(CommandError, match=r"newer release: it has accounts\.9999_from_the_future, which"):
        call_command("migrate", "--no-input", verbosity=0)


def test_a_migration_that_was_squashed_since_hinders_nobody() -> None:
    MigrationRecorder(connection).record_applied("accounts", "0001_as_it_was_before")
    MigrationRecorder(connection).record_applied("gone", "9999_of_an_app_that_is_no_more")
    call_command("migrate", "--no-input", verbosity=0)


@pytest.mark.django_db(transaction=True)
def test_the_flush_after_a_test_leaves_what_migrations_leave() -> None:
    def rows() -> list[list[Any]]:
        return [list(model._base_manager.order_by("pk").values()) for model in (ContentType, Permission)]

    before = rows()
    ContentType.objects.filter(app_label="topics").delete()
    call_command("flush", verbosity=0, interactive=False, reset_sequences=False)
    assert rows() == before
    emit_post_migrate_signal(0, False, "default")
    assert rows() == before and len(before[0]) > 50 and len(before[1]) > 200
