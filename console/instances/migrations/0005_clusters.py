from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def say_whose(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The one cluster of before is that of the settings: the embedded one, or the one that GANTRY_NAMESRV names."""
    cluster = apps.get_model("instances", "Cluster")
    first = cluster.objects.order_by("pk").first()
    if first is not None:
        origin = "embedded" if settings.EMBEDDED_BROKER else "settings"
        cluster.objects.filter(pk=first.pk).update(origin=origin)


class Migration(migrations.Migration):
    dependencies = [
        ("instances", "0004_default_rates"),
    ]

    operations = [
        migrations.AddField(
            "cluster",
            "origin",
            models.CharField(
                choices=[("embedded", "Embedded"), ("settings", "From the settings"), ("added", "Added here")],
                default="added",
                max_length=8,
            ),
        ),  # fmt: skip
        migrations.AlterField(
            "cluster",
            "namesrv",
            models.CharField(
                help_text="host:port of the name server, several separated by ;",
                max_length=255,
            ),
        ),  # fmt: skip
        migrations.AddField(
            "cluster",
            "access_key_id",
            models.CharField(
                blank=True,
                default="",
                help_text="of the console's account there",
                max_length=128,
            ),
            preserve_default=False,
        ),  # fmt: skip
        migrations.AddField(
            "cluster", "secret_encrypted", models.TextField(blank=True, default=""), preserve_default=False
        ),
        migrations.AddField(
            "cluster",
            "tls",
            models.BooleanField(
                default=False,
                help_text="brokers and name servers are spoken to over TLS",
            ),
        ),  # fmt: skip
        migrations.AddField(
            "cluster",
            "authority",
            models.TextField(
                blank=True,
                default="",
                help_text="PEM: who signed their certificates; empty: the system's list",
            ),
            preserve_default=False,
        ),  # fmt: skip
        migrations.AddField(
            "cluster",
            "certificate",
            models.TextField(
                blank=True,
                default="",
                help_text="PEM: shown to brokers that ask for one",
            ),
            preserve_default=False,
        ),  # fmt: skip
        migrations.AddField(
            "cluster", "key_encrypted", models.TextField(blank=True, default=""), preserve_default=False
        ),
        migrations.AddField(
            "cluster",
            "proxy",
            models.CharField(
                blank=True,
                default="",
                help_text="host:port of the gRPC proxy, told to clients",
                max_length=255,
            ),
            preserve_default=False,
        ),  # fmt: skip
        migrations.AddField(
            "cluster",
            "access_control",
            models.CharField(
                choices=[
                    ("auto", "Found out from the brokers"),
                    ("acl2", "Users and lists of the brokers (ACL 2.0)"),
                    ("acl1", "A file of the brokers (ACL 1.0): kept by hand"),
                    ("none", "None"),
                ],
                default="auto",
                max_length=4,
            ),
        ),  # fmt: skip
        migrations.AddField(
            "cluster",
            "read_only",
            models.BooleanField(
                default=False,
                help_text="the console changes nothing there",
            ),
        ),  # fmt: skip
        migrations.RunPython(say_whose, migrations.RunPython.noop),
        migrations.AddConstraint(
            "cluster",
            models.UniqueConstraint(
                condition=models.Q(("origin", "added"), _negated=True),
                fields=("origin",),
                name="one_cluster_of_settings",
            ),
        ),  # fmt: skip
    ]
