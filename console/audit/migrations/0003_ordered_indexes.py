"""Indexes that narrow and sort at once; on SQLite they leave the table and its triggers as they are."""

from django.db import migrations, models

REMOVED = ("audit_actor_at", "audit_action_at", "audit_result_at", "audit_resource_at", "audit_key_at")
ADDED = {
    "audit_actor": "actor",
    "audit_action": "action",
    "audit_result": "result",
    "audit_resource": "resource",
    "audit_key": "access_key_id",
    "audit_request_of_tenant": "request_id",
}


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0002_append_only"),
    ]

    operations = [
        *(migrations.RemoveIndex(model_name="entry", name=name) for name in REMOVED),
        *(
            migrations.AddIndex(
                model_name="entry", index=models.Index(fields=["tenant", column, "-at", "-id"], name=name)
            )
            for name, column in ADDED.items()
        ),
    ]
