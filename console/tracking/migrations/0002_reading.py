from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracking", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="consumergroup",
            name="read_up_to",
            field=models.PositiveBigIntegerField(
                help_text="number of the last event that its reader is done with; null: it has never read", null=True
            ),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="lost_at",
            field=models.DateTimeField(
                help_text="when events were removed that its reader had still to read", null=True
            ),
        ),
    ]
