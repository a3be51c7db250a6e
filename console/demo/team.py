"""The one account of a team that brings its own cluster: all that is on the cluster is its own, as it is there.

Nothing is made, changed or deleted on the cluster: names are adopted by a rule (docs/operate/adoption.md), and there is
no AccessKey, which would become a user of each broker. Who wants tenants ends the rule, makes accounts, and adopts into
them.
"""

from __future__ import annotations

from django.db import transaction

from console.accounts.models import Tenant, TenantLimits
from console.adoption import rules
from console.adoption import services as adoption
from console.demo import account
from console.instances.models import Cluster
from console.rights import access_table

TENANT = "admin"
SCHEMA = "mq"
"""What its SQL account reads before anybody makes a schema: messages as tables."""


def exists() -> bool:
    """Whether the account is there."""
    return Tenant.objects.filter(name=TENANT).exists()


@transaction.atomic
def create(cluster: Cluster) -> dict[str, str]:
    """Make the account, its instance without namespace on the cluster, and the rule that adopts all there is.

    Returns its secrets, which are not kept in clear. Raises Refused.
    """
    made = account.make(TENANT, organization="Default")
    Tenant.objects.filter(name=TENANT).update(may_adopt=True)
    # Limits keep accounts from each other; this one has all that the cluster has.
    TenantLimits.objects.create(tenant=made.actor.tenant, topics=0, groups=0)
    rule = adoption.create_rule_for(actor=made.actor, tenant=made.actor.tenant, cluster=cluster, include="*")
    return made.passwords | {"instance_id": rule.instance.instance_id}


def adopt(cluster: Cluster) -> None:
    """Adopt what is there now; workers go on with what comes. Raises ClientError where it does not answer."""
    rules.apply(cluster)
    access_table.publish()
