"""The one account of a team that brings its own cluster: all that is on the cluster is its own, as it is there.

Nothing is made, changed or deleted on the cluster: names are adopted by a rule (docs/operate/adoption.md), and there is
no AccessKey, which would become a user of each broker. Who wants tenants ends the rule, makes accounts, and adopts into
them.
"""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization, ResourceSet, Tenant, User
from console.adoption import rules
from console.adoption import services as adoption
from console.demo.services import drawn_password
from console.instances.models import Cluster
from console.rights import access_table

TENANT = "admin"
SCHEMA = "mq"
"""What its SQL account reads before anybody makes a schema: messages as tables."""


def exists() -> bool:
    """Whether the account is there."""
    return Tenant.objects.filter(name=TENANT).exists()


@transaction.atomic
def create() -> dict[str, str]:
    """Make the account, its instance without namespace on each cluster, and the rule that adopts all there is.

    Returns its secrets, which are not kept in clear. Raises Refused.
    """
    policy_documents.ensure_system_policies()
    password, sql_password = drawn_password(), drawn_password()
    organization, _ = Organization.objects.get_or_create(name="Default", parent=None)
    ResourceSet.objects.get_or_create(organization=organization, name="default")
    user = accounts.create_tenant(name=TENANT, organization=organization, password=password)
    Tenant.objects.filter(name=TENANT).update(may_adopt=True)
    actor = Actor(user=User.objects.select_related("tenant").get(pk=user.pk), channel="command")
    accounts.set_database_password(user=user, name=TENANT, password=sql_password)
    instance_id = ""
    for cluster in Cluster.objects.filter(region=settings.REGION).order_by("pk"):
        instance = adoption.instance_for(actor=actor, tenant=actor.tenant, cluster=cluster, name=cluster.name)
        adoption.create_rule(actor=actor, instance=instance, include="*")
        instance_id = instance_id or instance.instance_id
    return {
        "password": password,
        "sql_password": sql_password,
        "instance_id": instance_id,
    }


def adopt() -> None:
    """Adopt what is there now; workers go on with what comes. Raises ClientError where a cluster does not answer."""
    for cluster in Cluster.objects.filter(region=settings.REGION):
        rules.apply(cluster)
    access_table.publish()
