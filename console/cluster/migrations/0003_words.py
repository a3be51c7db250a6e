from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0002_unchecked"),
    ]

    operations = [
        migrations.AlterField(
            model_name="clusteruser",
            name="state",
            field=models.CharField(
                choices=[
                    ("pending", "Pending"),
                    ("synced", "In sync"),
                    ("refused", "Not managed by Gantry"),
                    ("ending", "Being deleted"),
                    ("ended", "Deleted"),
                ],
                default="pending",
                max_length=8,
            ),
        ),
    ]
