"""Rules of instances (management API: instance/create, update, delete)."""

from __future__ import annotations

import re

import pytest

from console.instances import services
from console.instances.models import Instance
from console.web.errors import Refused
from tests.support.cast import Cast, make_group, make_instance


def test_an_id_names_the_account(cast: Cast) -> None:
    assert re.fullmatch(rf"MQ_INST_{cast.acme.uid}_[A-Za-z0-9]{{8}}", cast.instance.instance_id)


@pytest.mark.parametrize("name", ["ab", "x" * 65, "tab\tinside", "  a  "])
def test_it_refuses_a_name_that_breaks_the_rule(cast: Cast, name: str) -> None:
    with pytest.raises(Refused) as refused:
        make_instance(cast.alice, cast.cluster, name=name)
    assert (refused.value.symbol, refused.value.field) == ("BIZ_FIELD_CHECK_INVALID", "name")


def test_a_name_is_taken_within_the_account(cast: Cast) -> None:
    with pytest.raises(Refused) as refused:
        make_instance(cast.alice, cast.cluster, name=cast.instance.name)
    assert refused.value.symbol == "BIZ_INSTANCE_EXISTED"


def test_there_is_one_instance_without_namespace(cast: Cast) -> None:
    make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    with pytest.raises(Refused) as refused:
        make_instance(cast.alice, cast.cluster, name="bare too", independent_naming=False)
    assert refused.value.symbol == "BIZ_INSTANCE_DEFAULT_EXISTED"
    make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)


@pytest.mark.parametrize("field", ["max_send_tps", "max_receive_tps", "topic_capacity"])
def test_it_refuses_a_limit_below_one(cast: Cast, field: str) -> None:
    with pytest.raises(Refused) as refused:
        make_instance(cast.alice, cast.cluster, name="limited", **{field: 0})
    assert refused.value.field == field


def test_it_refuses_an_unknown_cluster(cast: Cast) -> None:
    with pytest.raises(Refused) as refused:
        services.create_instance(
            actor=cast.actor("alice"), cluster="elsewhere", name="nowhere", independent_naming=True
        )
    assert refused.value.symbol == "BIZ_CLUSTER_NOT_FOUND"


def test_the_quota_of_the_region_holds(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_INSTANCES", 1)
    with pytest.raises(Refused) as refused:
        make_instance(cast.alice, cast.cluster, name="one too many")
    assert refused.value.symbol == "BIZ_INSTANCE_QUOTA_EXCEEDED"


def test_renaming_to_the_own_name_is_fine(cast: Cast) -> None:
    services.update_instance(actor=cast.actor("alice"), instance=cast.instance, name="orders", remark=" of the shop ")
    assert Instance.objects.get(pk=cast.instance.pk).remark == "of the shop"


def test_it_refuses_to_delete_an_instance_with_a_group(cast: Cast) -> None:
    make_group(cast.alice, cast.instance)
    with pytest.raises(Refused) as refused:
        services.delete_instance(actor=cast.actor("alice"), instance=cast.instance)
    assert refused.value.symbol == "BIZ_INSTANCE_NOT_EMPTY"
