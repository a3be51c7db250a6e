from django.db import migrations

_AT_ONCE = 500


def mark(apps, schema_editor):
    """What runs have adopted is marked so where the instance of the run has it still."""
    names = apps.get_model("adoption", "RunName").objects.filter(run__purpose="adopt", state="done")
    for kind, model in (("topic", "Topic"), ("group", "Group")):
        rows = apps.get_model("topics", model).objects
        adopted = {}
        for instance, name in names.filter(kind=kind).order_by("pk").values_list("run__instance_id", "name"):
            adopted.setdefault(instance, []).append(name)
        for instance, found in adopted.items():
            for start in range(0, len(found), _AT_ONCE):
                wanted = found[start : start + _AT_ONCE]
                rows.filter(instance_id=instance, physical_name__in=wanted).update(adopted=True)


class Migration(migrations.Migration):
    dependencies = [("adoption", "0001_adoption"), ("topics", "0006_adopted")]

    operations = [migrations.RunPython(mark, migrations.RunPython.noop)]
