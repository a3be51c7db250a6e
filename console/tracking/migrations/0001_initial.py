import django.db.models.deletion
from django.db import migrations, models

import console.tracking.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0013_tracking_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="TrackingTask",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task_id", models.CharField(default=console.tracking.models.new_task_id, max_length=16, unique=True)),
                ("name", models.CharField(max_length=64)),
                (
                    "kind",
                    models.CharField(
                        choices=[("postgresql", "PostgreSQL"), ("mysql", "MySQL or MariaDB")], max_length=10
                    ),
                ),
                ("host", models.CharField(max_length=253)),
                ("port", models.PositiveIntegerField()),
                ("database", models.CharField(blank=True, help_text="of PostgreSQL", max_length=63)),
                ("user", models.CharField(max_length=80)),
                ("password_encrypted", models.TextField()),
                ("tables", models.TextField(help_text="patterns schema.table, one a line")),
                (
                    "tls",
                    models.CharField(
                        choices=[
                            ("off", "Not encrypted"),
                            ("required", "Encrypted, any certificate"),
                            ("verified", "Encrypted, certificate verified"),
                        ],
                        default="off",
                        max_length=8,
                    ),
                ),
                ("ca", models.TextField(blank=True, help_text="authorities that are trusted, PEM")),
                (
                    "snapshot",
                    models.BooleanField(default=False, help_text="whether the rows that are there come first"),
                ),
                ("retention_days", models.PositiveIntegerField(default=7)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("starting", "Starting"),
                            ("normal", "Normal"),
                            ("failed", "Failed"),
                            ("paused", "Paused"),
                            ("deleting", "Being deleted"),
                        ],
                        db_index=True,
                        default="starting",
                        max_length=8,
                    ),
                ),
                ("code", models.CharField(blank=True, help_text="of what is wrong, such as LOG_OFF", max_length=32)),
                ("sentence", models.TextField(blank=True)),
                ("mend", models.TextField(blank=True, help_text="statements that mend it")),
                ("revision", models.PositiveIntegerField(default=0)),
                (
                    "position",
                    models.TextField(
                        blank=True, help_text="in the source's own words; empty: nothing was captured yet"
                    ),
                ),
                (
                    "begins_anew",
                    models.BooleanField(default=False, help_text="the next capture forgets where the last one was"),
                ),
                ("position_at", models.PositiveBigIntegerField(default=0)),
                ("events", models.PositiveBigIntegerField(default=0, help_text="number of the last event in the log")),
                ("first_ms", models.BigIntegerField(help_text="time of the oldest event in the log", null=True)),
                ("last_ms", models.BigIntegerField(help_text="time of the newest", null=True)),
                ("rate", models.FloatField(help_text="events a second, lately", null=True)),
                (
                    "lag_bytes",
                    models.BigIntegerField(help_text="of the database's log that wait for the capture", null=True),
                ),
                ("lag_ms", models.BigIntegerField(null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("worker", models.CharField(blank=True, max_length=64)),
                ("heartbeat_at", models.DateTimeField(help_text="the process's last sign of life", null=True)),
                ("normal_at", models.DateTimeField(help_text="it has captured since", null=True)),
                ("deleted_at", models.DateTimeField(help_text="asked to be deleted", null=True)),
                ("creator", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tracking_tasks", to="accounts.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ConsumerGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64)),
                ("account", models.CharField(max_length=64)),
                ("password_hash", models.CharField(max_length=255)),
                (
                    "holder",
                    models.CharField(
                        blank=True, help_text="key of what reads by it; empty: nothing does", max_length=64
                    ),
                ),
                ("holder_name", models.CharField(blank=True, help_text="what pages call that", max_length=128)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="groups", to="tracking.trackingtask"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddConstraint(
            model_name="trackingtask",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "deleting"), _negated=True),
                fields=("tenant", "name"),
                name="one_tracking_task_of_a_name",
            ),
        ),
        migrations.AddConstraint(
            model_name="consumergroup",
            constraint=models.UniqueConstraint(fields=("task", "name"), name="one_consumer_group_of_a_name"),
        ),
    ]
