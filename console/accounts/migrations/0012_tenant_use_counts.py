from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0011_job_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenantuse",
            name="counts",
            field=models.BigIntegerField(
                default=0, help_text="how often it was counted: of counts at once one is taken"
            ),
        ),
    ]
