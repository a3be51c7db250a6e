from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pipelines", "0005_inflow"),
    ]

    operations = [
        migrations.AddField(
            model_name="pipeline",
            name="deleted_at",
            field=models.DateTimeField(help_text="while it ran: it is removed once it has stopped", null=True),
        ),
        migrations.RemoveConstraint(model_name="pipeline", name="one_pipeline_of_a_name"),
        migrations.AddConstraint(
            model_name="pipeline",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)),
                fields=("tenant", "kind", "name"),
                name="one_pipeline_of_a_name",
            ),
        ),
    ]
