from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_LONGEST = 64


def place(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Every cluster is of a region of the settings, else of the default, and its instances are of the same.

    An instance whose name another one of its account has there gets a number behind it: its ID is what clients know.
    """
    cluster, instance = apps.get_model("instances", "Cluster"), apps.get_model("instances", "Instance")
    default = next(iter(settings.REGIONS))
    cluster.objects.exclude(region__in=list(settings.REGIONS)).update(region=default)
    cluster.objects.exclude(origin="added").update(region=default)
    for one in instance.objects.select_related("cluster").order_by("pk"):
        region = one.cluster.region
        if one.region == region:
            continue
        taken = set(instance.objects.filter(tenant=one.tenant, region=region).values_list("name", flat=True))
        name, number = one.name, 2
        while name in taken:
            behind = f"-{number}"
            name, number = one.name[: _LONGEST - len(behind)] + behind, number + 1
        instance.objects.filter(pk=one.pk).update(region=region, name=name)


class Migration(migrations.Migration):
    dependencies = [("instances", "0006_acl1_accounts")]

    operations = [migrations.RunPython(place, migrations.RunPython.noop)]
