from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("instances", "0005_clusters")]

    operations = [
        migrations.AlterField(
            model_name="cluster",
            name="access_control",
            field=models.CharField(
                choices=[
                    ("auto", "Found out from the brokers"),
                    ("acl2", "Users and lists of the brokers (ACL 2.0)"),
                    ("acl1", "Accounts in a file of the brokers (ACL 1.0)"),
                    ("none", "None"),
                ],
                default="auto",
                max_length=4,
            ),
        ),
    ]
