from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_tenant_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenantlimits",
            name="queues",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
