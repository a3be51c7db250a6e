"""The audit trail refuses UPDATE and DELETE, also to whoever reaches past the models.

SQLite drops a table's triggers when a later migration makes the table anew: such a migration must call
`console.audit.record.triggers.create` again, as a test holds.
"""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce

from console.audit.record import triggers


def keep_uids(apps, schema_editor):
    entry, tenant = apps.get_model("audit", "Entry"), apps.get_model("accounts", "Tenant")
    uid = Subquery(tenant.objects.filter(pk=OuterRef("tenant_id")).values("uid")[:1])
    entry.objects.filter(tenant__isnull=False).update(tenant_uid=Coalesce(uid, models.Value("")))


def create_triggers(apps, schema_editor):
    triggers.create(schema_editor)


def drop_triggers(apps, schema_editor):
    triggers.drop(schema_editor)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_initial"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="entry", name="audit_entry_tenant__a85b84_idx"),
        migrations.AlterField(
            model_name="entry",
            name="at",
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False),
        ),
        migrations.AlterField(
            model_name="entry",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="accounts.tenant",
            ),
        ),
        migrations.AddField(
            model_name="entry",
            name="tenant_uid",
            field=models.CharField(blank=True, max_length=16, default=""),
            preserve_default=False,
        ),
        migrations.RunPython(keep_uids, migrations.RunPython.noop),
        migrations.AddIndex(model_name="entry", index=models.Index(fields=["-at", "-id"], name="audit_at")),
        migrations.AddIndex(
            model_name="entry", index=models.Index(fields=["tenant", "-at", "-id"], name="audit_tenant_at")
        ),
        migrations.AddIndex(
            model_name="entry", index=models.Index(fields=["tenant", "actor", "-at"], name="audit_actor_at")
        ),
        migrations.AddIndex(
            model_name="entry", index=models.Index(fields=["tenant", "action", "-at"], name="audit_action_at")
        ),
        migrations.AddIndex(
            model_name="entry", index=models.Index(fields=["tenant", "result", "-at"], name="audit_result_at")
        ),
        migrations.AddIndex(
            model_name="entry", index=models.Index(fields=["tenant", "resource", "-at"], name="audit_resource_at")
        ),
        migrations.AddIndex(
            model_name="entry", index=models.Index(fields=["access_key_id", "-at"], name="audit_key_at")
        ),
        migrations.AddIndex(model_name="entry", index=models.Index(fields=["request_id"], name="audit_request")),
        migrations.RunPython(create_triggers, drop_triggers),
    ]
