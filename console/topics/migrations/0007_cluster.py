import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def fill(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Each topic and group is on the cluster of its instance."""
    clusters = apps.get_model("instances", "Instance").objects.filter(pk=models.OuterRef("instance")).values("cluster")
    for name in ("Topic", "Group"):
        apps.get_model("topics", name).objects.update(cluster=models.Subquery(clusters))


def _cluster() -> models.ForeignKey:
    return models.ForeignKey(
        null=True, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="instances.cluster"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("instances", "0005_clusters"),
        ("topics", "0006_adopted"),
    ]

    operations = [
        migrations.AddField("topic", "cluster", _cluster()),
        migrations.AddField("group", "cluster", _cluster()),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
