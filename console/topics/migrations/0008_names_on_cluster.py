import django.db.models.deletion
from django.db import migrations, models


def _cluster() -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="instances.cluster"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0007_cluster"),
    ]

    operations = [
        migrations.AlterField("topic", "cluster", _cluster()),
        migrations.AlterField("group", "cluster", _cluster()),
        migrations.AlterField("topic", "physical_name", models.CharField(max_length=255)),
        migrations.AlterField("group", "physical_name", models.CharField(max_length=255)),
        migrations.AddConstraint(
            "topic", models.UniqueConstraint(fields=("physical_name", "cluster"), name="topic_name_on_cluster")
        ),
        migrations.AddConstraint(
            "group", models.UniqueConstraint(fields=("physical_name", "cluster"), name="group_name_on_cluster")
        ),
    ]
