import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F


def begin(apps, schema_editor):
    """What runs was started with the version that is deployed."""
    apps.get_model("pipelines", "Pipeline").objects.update(started_version=F("version"))


class Migration(migrations.Migration):
    dependencies = [("pipelines", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="pipeline",
            name="started_version",
            field=models.ForeignKey(
                help_text="what the last start was asked for",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="pipelines.version",
            ),
        ),
        migrations.RunPython(begin, migrations.RunPython.noop),
    ]
