"""Rights never widen: no sequence of permitted operations gives an attacker, or anybody it can act as, a right more.

The attacker is Mallory, a RAM user with rights on users, groups, policies and roles. The named attacks are the ways
that somebody would try first; the last test lets hypothesis look for others in accounts that it makes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import transaction
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from brokercore.policy import mq_resource
from console.accounts import assumable_roles, services
from console.accounts.actor import Actor, service_resource
from console.accounts.models import Organization, Policy, Role, SingleSignOn, Tenant, User, UserGroup
from console.accounts.policy_documents import ensure_system_policies
from console.accounts.services.single_sign_on import save_single_sign_on
from console.instances.models import Cluster, Instance
from console.topics import grants
from console.topics.models import Grant, Group, Topic
from console.web.errors import Refused
from tests.support.roles import trusting

PASSWORD = "Correct-horse-7"
Document = dict[str, Any]


@pytest.fixture(autouse=True)
def cheap_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def statement(action: str | list[str], resource: str | list[str] = "*", effect: str = "Allow", **more: Any) -> Document:
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


WITH_MFA: dict[str, Any] = {"Condition": {"Bool": {"acs:MFAPresent": "true"}}}


@dataclass
class World:
    """The accounts acme and umbrella, in rows alone: nothing here needs a broker."""

    acme: Tenant
    umbrella: Tenant
    alice: User
    charlie: User
    topics: list[Topic] = field(default_factory=list)

    @classmethod
    def made(cls) -> World:
        """Two accounts with an instance and topics each."""
        ensure_system_policies()
        organization = Organization.objects.create(name="Head office")
        alice = services.create_tenant(name="acme", organization=organization, password=PASSWORD)
        charlie = services.create_tenant(name="umbrella", organization=organization, password=PASSWORD)
        assert alice.tenant
        assert charlie.tenant
        world = cls(alice.tenant, charlie.tenant, alice, charlie)
        cluster = Cluster.objects.create(name="DefaultCluster", origin="embedded", namesrv="127.0.0.1:1")
        for tenant, names in ((world.acme, ("orders", "wages")), (world.umbrella, ("plans",))):
            instance_id = f"MQ_INST_{tenant.uid}_AbCdEf12"
            instance = Instance.objects.create(
                tenant=tenant, cluster=cluster, name="main", instance_id=instance_id, independent_naming=True
            )
            for name in names:
                physical = f"{instance_id}%{name}"
                topic = Topic.objects.create(instance=instance, name=name, physical_name=physical, order_type=0)
                world.topics.append(topic)
        return world

    def group_of(self, user: User, name: str) -> Group:
        """A consumer group that the user made and keeps for itself."""
        instance = Instance.objects.get(tenant=self.acme)
        physical = f"{instance.instance_id}%{name}"
        return Group.objects.create(
            instance=instance, group_id=name, physical_name=physical, owner=self.acme, creator=user
        )

    def user(self, name: str, *statements: Document) -> User:
        """A RAM user of acme with a policy of these statements."""
        policies = [self.policy(f"of-{name}", *statements)] if statements else []
        return services.create_user(actor=Actor(self.alice), name=name, password=PASSWORD, policies=policies)

    def policy(self, name: str, *statements: Document, tenant: Tenant | None = None) -> Policy:
        document = {"Version": "1", "Statement": list(statements)}
        return Policy.objects.create(tenant=tenant or self.acme, name=name, document=document)

    def role(self, name: str, trusted: list[str], *statements: Document, tenant: Tenant | None = None) -> Role:
        """A role that trusts `user/bob`, `role/x` or `root` of acme."""
        tenant = tenant or self.acme
        trust = trusting(*(f"acs:ram::{self.acme.uid}:{who}" for who in trusted))
        role = Role.objects.create(tenant=tenant, name=name, trust_policy=trust)
        if statements:
            role.policies.add(self.policy(f"of-{name}", *statements, tenant=tenant))
        return role


@pytest.fixture
def world(db: None) -> World:
    return World.made()


MALLORY = [statement(["ram:*", "sts:AssumeRole"]), statement("mq:PUB", "acs:mq:*:*:*orders")]
STRONG = statement("mq:*")


@pytest.fixture
def mallory(world: World) -> User:
    """Everything of RAM, assuming any role that lets her in, and publishing to one topic."""
    return world.user("mallory", *MALLORY)


def acting(user: User) -> Actor:
    return Actor(user=User.objects.select_related("tenant").get(pk=user.pk))


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(PermissionDenied) as denied, transaction.atomic():
        act()
    return str(denied.value)


# --- Named attacks


def test_a_password_is_not_reset_of_a_user_whom_a_strong_role_trusts(world: World, mallory: User) -> None:
    bob = world.user("bob", statement("sts:AssumeRole"))
    world.role("Strong", ["user/bob"], STRONG)
    refused(lambda: services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8"))


def test_a_role_that_the_caller_can_assume_under_a_condition_only_is_not_its_own(world: World) -> None:
    mallory = world.user("mallory", *MALLORY[1:], statement("ram:*"), statement("sts:AssumeRole", "*", **WITH_MFA))
    bob = world.user("bob", statement("sts:AssumeRole", "*", **WITH_MFA))
    world.role("Strong", ["root"], STRONG)
    refused(lambda: services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8"))


def test_a_password_is_reset_of_a_user_whose_roles_the_caller_can_assume_itself(world: World, mallory: User) -> None:
    bob = world.user("bob", statement("sts:AssumeRole"))
    world.role("Everybodys", ["root"], STRONG)
    services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8")


@pytest.mark.parametrize("way", ["roles", "accounts"])
def test_what_a_user_can_become_counts_from_role_to_role_and_in_other_accounts(
    world: World, mallory: User, way: str
) -> None:
    bob = world.user("bob", statement("sts:AssumeRole"))
    if way == "roles":
        world.role("First", ["user/bob"], statement("sts:AssumeRole"))
        world.role("Strong", ["role/First"], STRONG)
    else:
        world.role("Guest", ["user/bob"], statement("mq:PUB"), tenant=world.umbrella)
    said = refused(lambda: services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8"))
    assert ("Strong" in said) is (way == "roles")
    assert "Guest" not in said


def test_a_user_is_not_touched_in_any_other_way_either(world: World, mallory: User) -> None:
    bob = world.user("bob", statement("sts:AssumeRole"))
    world.role("Strong", ["user/bob"], STRONG)
    key = services.create_access_key(actor=acting(bob), user=bob)
    stored = bob.access_keys.get(access_key_id=key.access_key_id)
    actor = acting(mallory)
    for act in (
        lambda: services.create_access_key(actor=actor, user=bob),
        lambda: services.set_access_key_enabled(actor=actor, key=stored, enabled=True),
        lambda: services.remove_mfa_devices(actor=actor, user=bob),
        lambda: services.set_mfa_required(actor=actor, user=bob, required=False),
        lambda: services.set_user_enabled(actor=actor, user=bob, enabled=True),
        lambda: services.delete_user(actor=actor, user=bob),
        lambda: services.sign_out(actor=actor, user=bob),
    ):
        refused(act)


def test_a_user_of_a_name_that_a_role_trusts_is_not_made_with_the_right_to_assume_it(
    world: World, mallory: User
) -> None:
    world.role("Strong", ["user/etl"], STRONG)
    assume = world.policy("assume", statement("sts:AssumeRole"))
    group = UserGroup.objects.create(tenant=world.acme, name="assumers")
    group.policies.add(assume)
    actor = acting(mallory)
    for more in ({"policies": [assume]}, {"groups": [group]}):
        refused(lambda more=more: services.create_user(actor=actor, name="etl", password=PASSWORD, **more))  # type: ignore[misc]
    etl = services.create_user(actor=actor, name="etl", password=PASSWORD)
    for act in (
        lambda: services.attach_policy(actor=actor, user=etl, policy=assume),
        lambda: services.add_user(actor=actor, group=group, user=etl),
    ):
        refused(act)
    empty = services.create_group(actor=actor, name="empty")
    services.add_user(actor=actor, group=empty, user=etl)
    refused(lambda: services.attach_group_policy(actor=actor, group=empty, policy=assume))


def test_a_role_of_a_name_that_another_trusts_is_not_made_with_the_right_to_assume_it(
    world: World, mallory: User
) -> None:
    world.role("Strong", ["role/Step"], STRONG)
    assume = world.policy("assume", statement("sts:AssumeRole"))
    actor = acting(mallory)
    mine = trusting(f"acs:ram::{world.acme.uid}:user/mallory")
    more: dict[str, Any] = {"name": "Step", "description": "", "trust_policy": mine}
    refused(lambda: services.create_role(actor=actor, policies=[assume], **more))
    step = services.create_role(actor=actor, policies=[], **more)
    refused(lambda: services.attach_role_policy(actor=actor, role=step, policy=assume))


def test_nobody_is_let_into_a_role_that_goes_on_to_a_stronger_one(world: World, mallory: User) -> None:
    step = world.role("Step", ["user/bob"], statement("sts:AssumeRole"))
    world.role("Strong", ["role/Step"], STRONG)
    mine = trusting(f"acs:ram::{world.acme.uid}:user/mallory")
    refused(
        lambda: services.update_role(
            actor=acting(mallory), role=step, description="", trust_policy=mine, max_session_s=900
        )
    )


@pytest.mark.parametrize("place", ["user", "group", "role"])
def test_a_denial_that_keeps_somebody_from_a_strong_role_is_not_taken_away(
    world: World, mallory: User, place: str
) -> None:
    barrier = world.policy("barrier", statement("sts:AssumeRole", "*", "Deny"))
    bob = world.user("bob", statement("sts:AssumeRole"))
    world.role("Strong", ["role/Step" if place == "role" else "user/bob"], STRONG)
    step = world.role("Step", ["root"], statement("sts:AssumeRole"))
    group = UserGroup.objects.create(tenant=world.acme, name="bound")
    actor = acting(mallory)
    if place == "user":
        bob.policies.add(barrier)
        acts: list[Callable[[], object]] = [lambda: services.detach_policy(actor=actor, user=bob, policy=barrier)]
    elif place == "role":
        step.policies.add(barrier)
        acts = [lambda: services.detach_role_policy(actor=actor, role=step, policy=barrier)]
    else:
        group.policies.add(barrier)
        group.users.add(bob)
        acts = [
            lambda: services.detach_group_policy(actor=actor, group=group, policy=barrier),
            lambda: services.remove_user(actor=actor, group=group, user=bob),
            lambda: services.delete_group(actor=actor, group=group),
        ]
    allowed = {"Version": "1", "Statement": [statement("mq:PUB", "acs:mq:*:*:*orders")]}
    acts.append(lambda: services.update_policy(actor=actor, policy=barrier, description="", document=allowed))
    for act in acts:
        refused(act)


def test_rights_are_not_given_away_without_their_conditions(world: World) -> None:
    mallory = world.user("mallory", statement("ram:*"), statement("mq:PUB", "*", **WITH_MFA))
    bob = world.user("bob")
    actor = acting(mallory)
    bare = world.policy("bare", statement("mq:PUB"))
    refused(lambda: services.attach_policy(actor=actor, user=bob, policy=bare))
    services.attach_policy(actor=actor, user=bob, policy=world.policy("same", statement("mq:PUB", "*", **WITH_MFA)))


def test_what_a_user_was_granted_on_a_topic_counts_as_its_right(world: World, mallory: User) -> None:
    bob = world.user("bob")
    Grant.objects.create(topic=world.topics[1], user=bob, relation=2)
    refused(lambda: services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8"))
    Grant.objects.all().delete()
    services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8")


def test_who_may_share_a_topic_shares_only_what_it_may_do_itself(world: World) -> None:
    orders = world.topics[0]
    rights = [statement(["mq:Empower", "mq:PUB", "mq:QueryTopic", "mq:QueryTrend"])]
    mallory, bob = world.user("mallory", *rights), world.user("bob")
    for receiver in ({"user": mallory}, {"user": bob}, {"tenant": world.umbrella}):
        for relation in (4, 6):
            refused(
                lambda r=receiver, n=relation: grants.create_grant(  # type: ignore[misc]
                    actor=acting(mallory), topic=orders, relation=n, **r
                )
            )
    grants.create_grant(actor=acting(mallory), topic=orders, relation=2, user=bob)


def test_a_group_that_a_user_keeps_for_itself_is_not_reached_by_way_of_its_sign_in_nor_of_a_role(world: World) -> None:
    everything = world.user("mallory", statement("*"))
    bob = world.user("bob")
    group = world.group_of(bob, "GID_bob")
    actor = acting(everything)
    assert not actor.decide("mq:SUB", mq_resource(group.physical_name), owner=world.acme, holder=group.holder).allowed
    refused(lambda: services.reset_password(actor=actor, user=bob, password="Another-horse-8"))
    mine = trusting(f"acs:ram::{world.acme.uid}:user/mallory")
    role = services.create_role(actor=actor, name="Mine", description="", trust_policy=mine, policies=[])
    readers = world.policy("readers", statement("mq:SUB", "acs:mq:*:*:*GID*"))
    refused(lambda: services.attach_role_policy(actor=actor, role=role, policy=readers))
    Group.objects.update(shared=True)
    services.attach_role_policy(actor=actor, role=role, policy=readers)
    services.reset_password(actor=actor, user=bob, password="Another-horse-8")


def test_who_says_how_everybody_signs_in_must_cover_everybody(world: World, mallory: User) -> None:
    bob = world.user("bob", statement("mq:SUB"))
    wanted: dict[str, Any] = {
        "issuer": "https://login.example.com", "client_id": "gantry", "client_secret": "s", "user_claim": "sub",
        "create_users": False, "enabled": True,
    }  # fmt: skip
    refused(lambda: save_single_sign_on(actor=acting(mallory), **wanted))
    assert not SingleSignOn.objects.exists()
    bob.policies.clear()
    save_single_sign_on(actor=acting(mallory), **wanted)
    save_single_sign_on(actor=Actor(world.alice), **wanted)


def test_too_many_roles_to_judge_is_a_refusal_and_not_a_minute_of_work(
    world: World, mallory: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = world.user("bob", statement("sts:AssumeRole"))
    for number in range(4):
        world.role(f"R{number}", ["root"])
    monkeypatch.setattr(assumable_roles, "MAX_ROLES", 3)
    said = refused(lambda: services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8"))
    assert "more than 3 roles" in said
    monkeypatch.setattr(assumable_roles, "MAX_ROLES", 100)
    monkeypatch.setattr(assumable_roles, "MAX_QUESTIONS", 3)
    said = refused(lambda: services.reset_password(actor=acting(mallory), user=bob, password="Another-horse-8"))
    assert "too many roles and users" in said
    services.reset_password(actor=Actor(world.alice), user=bob, password="Another-horse-8")


# --- Any sequence

USERS = ("bob", "eve", "new")
ROLES = ("First", "Second", "New")
TRUSTED = ("root", "user/bob", "user/eve", "user/new", "user/mallory", "role/First", "role/Second", "role/New")
ACTIONS = ("mq:PUB", "mq:SUB", "mq:*", "sts:AssumeRole", "ram:UpdateLoginProfile", "*")
RESOURCES = ("*", "acs:mq:*:*:*orders", "acs:mq:*:*:*GID_*", "acs:ram:*:*:role/First", "acs:ram:*:*:role/S*")
_statements = st.builds(
    lambda action, resource, effect, condition: statement(action, resource, effect, **condition),
    st.sampled_from(ACTIONS),
    st.sampled_from(RESOURCES),
    st.sampled_from(("Allow", "Allow", "Allow", "Deny")),
    st.sampled_from(({}, {}, {}, WITH_MFA)),
)
_documents = st.lists(_statements, min_size=1, max_size=2).map(lambda rows: {"Version": "1", "Statement": rows})
_trust = st.lists(st.sampled_from(TRUSTED), min_size=1, max_size=2)
_ASKED = ("mq:PUB", "mq:SUB", "ram:UpdateLoginProfile", "ram:AttachPolicyToUser")

Right = tuple[bool, str, str]


@dataclass
class Attack:
    """Mallory, and whoever she came to be: users whose sign-in she holds, and the roles that these can assume."""

    world: World
    held: set[int]

    def callers(self) -> Iterator[Actor]:
        """Everybody that she can act as now, with and without a second factor."""
        waiting = [
            Actor(user=user, mfa=mfa)
            for user in User.objects.filter(pk__in=self.held, is_active=True).select_related("tenant").order_by("pk")
            for mfa in (False, True)
        ]
        roles = list(Role.objects.select_related("tenant").order_by("pk"))
        assumed: set[int] = set()
        while waiting:
            caller = waiting.pop()
            yield caller
            for role in roles:
                if role.pk not in assumed and services.may_assume(caller, role).allowed:
                    assumed.add(role.pk)
                    waiting.append(Actor(role=Role.objects.get(pk=role.pk), session_name="mallory"))

    def rights(self) -> set[Right]:
        """All that the real decision allows to any of them: with a second factor or without, action, resource."""
        found: set[Right] = set()
        groups = {g.physical_name: g.holder for g in Group.objects.select_related("owner", "creator")}
        for caller in self.callers():
            for topic in self.world.topics:
                self._ask(found, caller, mq_resource(topic.physical_name), topic.instance.tenant)
            for name, holder in groups.items():
                self._ask(found, caller, mq_resource(name), self.world.acme, holder)
            for name in USERS:
                self._ask(found, caller, service_resource("ram", self.world.acme, f"user/{name}@acme"), self.world.acme)
        return found

    def _ask(self, found: set[Right], caller: Actor, resource: str, owner: Tenant, holder: str = "") -> None:
        for action in _ASKED:
            if caller.decide(action, resource, owner=owner, holder=holder).allowed:
                found.add((caller.mfa, action, resource))


def _made_up(data: st.DataObject, world: World) -> Attack:
    """An account with users, groups, roles, policies and grants; umbrella has a role that trusts somebody of acme."""
    policies = [
        Policy.objects.create(tenant=world.acme, name=f"p{n}", document=data.draw(_documents)) for n in range(3)
    ]
    users = [world.user(name) for name in USERS[:2]]
    group = UserGroup.objects.create(tenant=world.acme, name="team")
    roles = [world.role(name, data.draw(_trust)) for name in ROLES[:2]]
    world.role("Guest", data.draw(_trust), statement("mq:PUB"), tenant=world.umbrella)
    holders: list[User | UserGroup | Role] = [*users, group, *roles]
    for holder in holders:
        holder.policies.set(data.draw(st.sets(st.sampled_from(policies), max_size=2)))
    group.users.set(data.draw(st.sets(st.sampled_from(users), max_size=2)))
    if data.draw(st.booleans()):
        Grant.objects.create(topic=world.topics[1], user=users[0], relation=6)
    if data.draw(st.booleans()):
        world.group_of(data.draw(st.sampled_from(users)), "GID_kept")
    own = [statement(["ram:*", "mq:Empower"])]
    own += [statement("sts:AssumeRole")] if data.draw(st.booleans()) else []
    mallory = world.user("mallory", *own, *data.draw(st.lists(_statements, max_size=2)))
    return Attack(world, {mallory.pk})


def _operation(data: st.DataObject, attack: Attack, caller: Actor) -> tuple[str, str, Callable[[], object]]:
    """One operation of the console: the action and the path that its page asks for, and what it does then."""
    acme = attack.world.acme
    ram_users = list(User.objects.filter(tenant=acme, is_tenant_admin=False).order_by("pk"))
    user = data.draw(st.sampled_from(ram_users))
    group = UserGroup.objects.filter(tenant=acme).first()
    roles = list(Role.objects.filter(tenant=acme).order_by("pk"))
    role = data.draw(st.sampled_from(roles)) if roles else None
    policy = data.draw(st.sampled_from(list(Policy.objects.filter(tenant=acme).order_by("pk"))))

    def take(user: User) -> None:
        services.reset_password(user=user, password="Another-horse-8", actor=caller)
        attack.held.add(user.pk)

    def create_user() -> None:
        name = data.draw(st.sampled_from(USERS))
        groups = [group] if group and data.draw(st.booleans()) else []
        policies = [policy] if data.draw(st.booleans()) else []
        made = services.create_user(name=name, password=PASSWORD, policies=policies, groups=groups, actor=caller)
        attack.held.add(made.pk)

    def create_role() -> None:
        trust = trusting(*(f"acs:ram::{acme.uid}:{who}" for who in data.draw(_trust)))
        services.create_role(
            name=data.draw(st.sampled_from(ROLES)), description="", trust_policy=trust,
            policies=[policy] if data.draw(st.booleans()) else [], actor=caller,
        )  # fmt: skip

    def update_role(role: Role) -> None:
        trust = trusting(*(f"acs:ram::{acme.uid}:{who}" for who in data.draw(_trust)))
        services.update_role(role=role, description="", trust_policy=trust, max_session_s=3600, actor=caller)

    def sign_in_as_everybody() -> None:
        save_single_sign_on(
            issuer="https://mallory.example.com", client_id="x", client_secret="x", user_claim="sub",
            create_users=True, enabled=True, actor=caller,
        )  # fmt: skip
        attack.held.update(u.pk for u in ram_users)

    at_user, at_policy = f"user/{user.username}", f"policy/{policy.name}"
    found: list[tuple[str, str, Callable[[], object]]] = [
        ("ram:UpdateLoginProfile", at_user, lambda: take(user)),
        ("ram:UpdateUser", at_user, lambda: services.set_user_enabled(user=user, enabled=True, actor=caller)),
        ("ram:AttachPolicyToUser", at_user, lambda: services.attach_policy(user=user, policy=policy, actor=caller)),
        ("ram:DetachPolicyFromUser", at_user, lambda: services.detach_policy(user=user, policy=policy, actor=caller)),
        ("ram:DeleteUser", at_user, lambda: services.delete_user(user=user, actor=caller)),
        ("ram:CreateUser", "user/*", create_user),
        ("ram:CreateRole", "*", create_role),
        (
            "ram:UpdatePolicy",
            at_policy,
            lambda: services.update_policy(policy=policy, description="", document=data.draw(_documents), actor=caller),
        ),
        ("ram:UpdateSingleSignOn", "*", sign_in_as_everybody),
    ]
    topic = data.draw(st.sampled_from(attack.world.topics[:2]))
    if caller.decide("mq:Empower", mq_resource(topic.physical_name), owner=acme).allowed:
        found.append(
            ("ram:*", "*", lambda: grants.create_grant(topic=topic, user=user, relation=6, actor=caller)),
        )
    if group is not None:
        at_group, members = f"group/{group.name}", {"group": group, "user": user}
        found += [
            ("ram:AddUserToGroup", at_group, lambda: services.add_user(**members, actor=caller)),  # type: ignore[arg-type]
            ("ram:RemoveUserFromGroup", at_group, lambda: services.remove_user(**members, actor=caller)),  # type: ignore[arg-type]
            (
                "ram:AttachPolicyToGroup",
                at_group,
                lambda: services.attach_group_policy(group=group, policy=policy, actor=caller),
            ),
            (
                "ram:DetachPolicyFromGroup",
                at_group,
                lambda: services.detach_group_policy(group=group, policy=policy, actor=caller),
            ),
            ("ram:DeleteGroup", at_group, lambda: services.delete_group(group=group, actor=caller)),
        ]
    if role is not None:
        at_role = f"role/{role.name}"
        found += [
            ("ram:UpdateRole", at_role, lambda: update_role(role)),
            (
                "ram:AttachPolicyToRole",
                at_role,
                lambda: services.attach_role_policy(role=role, policy=policy, actor=caller),
            ),
            (
                "ram:DetachPolicyFromRole",
                at_role,
                lambda: services.detach_role_policy(role=role, policy=policy, actor=caller),
            ),
            ("ram:DeleteRole", at_role, lambda: services.delete_role(role=role, actor=caller)),
        ]
    return data.draw(st.sampled_from(found))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.django_db
def test_no_sequence_of_permitted_operations_widens_rights(data: st.DataObject) -> None:
    with transaction.atomic():
        world = World.made()
        attack = _made_up(data, world)
        before = attack.rights()
        for _ in range(data.draw(st.integers(1, 6))):
            callers = [caller for caller in attack.callers() if caller.tenant == world.acme]
            caller = data.draw(st.sampled_from(callers))
            action, path, act = _operation(data, attack, caller)
            if not caller.decide(action, service_resource("ram", world.acme, path), owner=world.acme).allowed:
                continue
            held = set(attack.held)
            try:
                with transaction.atomic():
                    act()
            except (PermissionDenied, Refused):
                attack.held = held
                continue
            note(f"{caller.name} did {action} on {path}")
            widened = attack.rights() - before
            assert not widened, f"{action} on {path} by {caller.name} gave {sorted(widened)}"
        transaction.set_rollback(True)
