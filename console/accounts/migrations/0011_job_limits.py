from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_smq_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenantlimits",
            name="jobs",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="tenantlimits",
            name="running_jobs",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
