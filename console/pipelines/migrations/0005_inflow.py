from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pipelines", "0004_deaths"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="pipeline", name="one_pipeline_of_a_name"),
        migrations.AddConstraint(
            model_name="pipeline",
            constraint=models.UniqueConstraint(fields=("tenant", "kind", "name"), name="one_pipeline_of_a_name"),
        ),
        migrations.AddField(
            model_name="pipeline",
            name="halted",
            field=models.BooleanField(default=False, help_text="it failed by what it is told to stop for"),
        ),
        migrations.AddField(
            model_name="pipeline",
            name="start_again",
            field=models.BooleanField(default=False, help_text="with the deployed version, once it has stopped"),
        ),
        migrations.AlterField(
            model_name="pipeline",
            name="name",
            field=models.CharField(max_length=127),
        ),
    ]
