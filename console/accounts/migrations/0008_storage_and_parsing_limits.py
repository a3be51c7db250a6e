import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_sql_connections"),
    ]

    operations = [
        *(
            migrations.AddField(
                model_name="tenantlimits",
                name=name,
                field=models.PositiveBigIntegerField(blank=True, null=True),
            )
            for name in ("lake_bytes", "result_bytes", "parsing_seconds")
        ),
        migrations.CreateModel(
            name="TenantUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("lake_bytes", models.BigIntegerField(default=0, help_text="of all files in its buckets")),
                ("result_bytes", models.BigIntegerField(default=0, help_text="of all its results that are kept")),
                (
                    "counted_at",
                    models.DateTimeField(blank=True, help_text="none: something has changed since", null=True),
                ),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="use", to="accounts.tenant"
                    ),
                ),
            ],
            options={"verbose_name_plural": "tenant uses"},
        ),
    ]
