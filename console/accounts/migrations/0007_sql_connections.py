from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_queues_limit"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenantlimits",
            name="sql_connections",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
