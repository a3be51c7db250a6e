from __future__ import annotations

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("instances", "0001_initial")]

    operations = [
        migrations.AddField("cluster", "created_at", models.DateTimeField(default=django.utils.timezone.now)),
        migrations.AddField("cluster", "modified_at", models.DateTimeField(auto_now=True)),
    ]
