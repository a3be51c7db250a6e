from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sql", "0004_turns"),
    ]

    operations = [
        migrations.AddField(
            model_name="querytask",
            name="writing_bytes",
            field=models.BigIntegerField(default=0, help_text="what a running statement has written by now"),
        ),
    ]
