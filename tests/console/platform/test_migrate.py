from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
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
