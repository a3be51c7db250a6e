from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0012_tenant_use_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenantlimits",
            name="tracking_tasks",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
