"""Names of a cluster that no account has: listed, adopted as they are, forgotten, and rules that adopt by themselves.

An account that may adopt does so for itself alone, the platform's administrator for every account.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from console.accounts.models import Tenant
from console.adoption import access, listing, queries, services
from console.adoption.models import Kind, Purpose, Rule, Run, RunName, State
from console.adoption.patterns import MOST
from console.adoption.preview import Preview, preview
from console.adoption.queries import Choice, Line
from console.instances.models import Cluster, Instance
from console.openapi.envelope import FIELD, Page, cut, milliseconds, page_of
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Call,
    ListPage,
    ListSize,
    Nothing,
    Parameters,
    Positive,
    Result,
    operation,
)
from console.web import regions
from console.web.errors import Refused

_LOOK, _ADOPT = "platform:ListUnowned", "platform:AdoptNames"
_SERVICE = "Adoption"
_TOLD = 200
"""Names of which a preview tells something; their number is told besides."""
_LONGEST_LIST = 900_000
"""Characters of a list of names: a form holds a mebibyte."""

_CLUSTER_MISSES = ("BIZ_CLUSTER_NOT_FOUND",)
_TARGET_MISSES = (*_CLUSTER_MISSES, "BIZ_ACCOUNT_NOT_FOUND")
_RUN_MISSES = ("BIZ_ADOPTION_RUN_NOT_FOUND",)
_TOO_MANY = ("BIZ_TOPIC_QUOTA_EXCEEDED", "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED")

ClusterName = Annotated[
    str, Field(max_length=64, description="Name of the cluster. It may be left out when there is one.")
]
Account = Annotated[
    str,
    Field(max_length=32, description="Name of the account that gets them; the caller's own when it is left out."),
]
Patterns = Annotated[
    str,
    Field(
        max_length=MOST,
        description="Patterns with * and ?, separated by spaces; a word without one is looked for in names.",
        examples=["payments-*"],
    ),
]
Except = Annotated[str, Field(max_length=MOST, description="Patterns of names that are left out.")]
KindChoice = Annotated[
    str, Field(pattern="^(topic|group)?$", description="topic or group; empty for both.", examples=["topic"])
]
RunNumber = Annotated[Positive, Field(description="Number of the run.")]
RuleNumber = Annotated[Positive, Field(description="Number of the rule.")]


class Chosen(Parameters):
    """Names of a cluster, by pattern or one by one."""

    cluster: ClusterName = ""
    include: Patterns = ""
    exclude: Except = ""
    kind: KindChoice = ""
    names: Annotated[
        str,
        StringConstraints(max_length=_LONGEST_LIST),
        Field(
            description="Single names instead, separated by spaces, commas or line breaks: `topic:orders`, "
            "`group:pay`, or `orders` for what has this name. Patterns then say nothing."
        ),
    ] = ""

    @property
    def choice(self) -> Choice:
        """What was chosen."""
        keys = queries.keys_of(self.names.replace(",", " ").split())
        return Choice(self.include, self.exclude, self.kind, keys)


class ChosenPage(Chosen):
    currentPage: ListPage = 1
    pageSize: ListSize = 20


class AdoptedPage(ChosenPage):
    instanceId: Annotated[
        str,
        Field(
            max_length=64,
            description="An instance of the caller's account, whose adopted names need no right to adopt others.",
        ),
    ] = ""


class Target(Chosen):
    account: Account = ""


class Adopt(Target):
    instanceName: Annotated[
        str,
        Field(
            max_length=64,
            description="Name of the instance without namespace, where the account has none on the cluster yet.",
        ),
    ] = ""


class OnCluster(Parameters):
    cluster: ClusterName = ""
    currentPage: ListPage = 1
    pageSize: ListSize = 20


class RunOnly(Parameters):
    run: RunNumber


class RunNames(RunOnly):
    state: Annotated[
        str, Field(pattern="^(waiting|done|refused)?$", description="waiting, done or refused; empty for all.")
    ] = ""
    currentPage: ListPage = 1
    pageSize: ListSize = 20


class RuleCreate(Parameters):
    cluster: ClusterName = ""
    account: Account = ""
    include: Annotated[
        str,
        Field(min_length=1, max_length=MOST, description="Patterns with * and ?, separated by spaces.", examples=["*"]),
    ]
    exclude: Except = ""
    kind: KindChoice = ""


class RuleOnly(Parameters):
    rule: RuleNumber


class UnownedDo(Result):
    """A topic or group that no account has."""

    kind: str = Field(description="topic or group.")
    name: str
    refusal: str = Field(description="Why no account can have it; else empty.")
    forgotten: bool = Field(description="Whether it was forgotten, so that no rule adopts it.")
    differing: str = Field(description="In which settings its brokers differ; else empty.")
    messagesPerSecond: float | None = Field(description="In, of a topic; out, of a group. Null when it is not known.")
    amount: int | None = Field(description="Stored messages of a topic, backlog of a group. Null when not known.")
    lastUseTime: int | None = Field(description="Of the last message, ms; of a group, of the last that it consumed.")


class AdoptedDo(Result):
    """A topic or group that an account has as the cluster had it."""

    kind: str = Field(description="topic or group.")
    name: str
    account: str


class NamedDo(Result):
    """A name and what is told of it."""

    kind: str = Field(description="topic or group.")
    name: str
    reason: str


class PreviewDo(Result):
    """What adopting would do."""

    cluster: str
    account: str
    instanceId: str = Field(description="The account's instance without namespace; empty when it would be made.")
    topics: int = Field(description="Topics that would be adopted.")
    groups: int = Field(description="Groups that would be adopted.")
    refused: int = Field(description="Chosen names that cannot be adopted.")
    refusedNames: list[NamedDo] = Field(description=f"The first {_TOLD} of them, with the reason.")
    differing: int = Field(description="Names of which brokers have different settings; those of the first are shown.")
    differingNames: list[NamedDo] = Field(description=f"The first {_TOLD} of them, with the settings.")
    tooMany: list[str] = Field(description="Limits of account or instance that do not allow it.")


class RunDo(Result):
    """Many names in one go, and how far it is."""

    run: int
    purpose: str = Field(description="adopt or forget.")
    cluster: str
    account: str
    instanceId: str
    rule: int | None = Field(description="Number of the rule that made it.")
    requester: str
    total: int
    waiting: int
    done: int
    refused: int
    error: str = Field(description="Why it waits for the cluster; else empty.")
    createTime: int = Field(description="Milliseconds since the epoch.")
    endTime: int | None = Field(description="Milliseconds since the epoch; null while it goes on.")


class RunNameDo(Result):
    """One name of a run."""

    kind: str = Field(description="topic or group.")
    name: str
    state: str = Field(description="waiting, done or refused.")
    reason: str = Field(description="Why it was refused; else empty.")


class RuleDo(Result):
    """Names that fit belong to an account, those that come later too."""

    rule: int
    cluster: str
    account: str
    instanceId: str
    include: str
    exclude: str
    kind: str = Field(description="topic, group, or empty for both.")
    creator: str
    createTime: int = Field(description="Milliseconds since the epoch.")
    taken: int = Field(description="Names that it has adopted so far.")


@operation(
    "adoption/list",
    service=_SERVICE,
    summary="Names of a cluster that no account has",
    description="Topics, then groups, by name, without what RocketMQ keeps for itself. A page behind the last is empty "
    "and tells the true total. Of a cluster with more than 2,000 of them the list is up to two minutes old.",
    parameters=ChosenPage,
    result=UnownedDo,
    paged=True,
    needs=(_LOOK,),
    errors=_CLUSTER_MISSES,
    extension=True,
)
def list_unowned(call: Call, parameters: ChosenPage) -> Page:
    cluster = _cluster(call, parameters.cluster, _LOOK)
    found = queries.listed(cluster, parameters.choice).names
    lines = [Line(listing.unowned_of(kept)) for kept in cut(parameters, found)]
    queries.add_rates(cluster, lines)
    queries.add_last_use(cluster, lines)
    return Page.of(parameters, [_line(line) for line in lines], len(found))


@operation(
    "adoption/listAdopted",
    service=_SERVICE,
    summary="Names that were adopted",
    description="Topics, then groups, by name: what accounts have as the cluster had it.",
    parameters=AdoptedPage,
    result=AdoptedDo,
    paged=True,
    needs=(f"{_LOOK}|mq:QueryInstance",),
    errors=(*_CLUSTER_MISSES, "BIZ_INSTANCE_NOT_FOUND"),
    extension=True,
)
def list_adopted(call: Call, parameters: AdoptedPage) -> Page:
    if parameters.instanceId:
        instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
        found = queries.adopted_in(call.actor, instance, parameters.choice)
    else:
        found = queries.adopted(call.actor, _cluster(call, parameters.cluster, _LOOK), parameters.choice)
    rows = [AdoptedDo(kind=one.kind, name=one.name, account=one.account) for one in cut(parameters, found)]
    return Page.of(parameters, rows, len(found))


@operation(
    "adoption/preview",
    service=_SERVICE,
    summary="What adopting names would do",
    description="Nothing is changed. The names themselves are told by `adoption/list`.",
    parameters=Target,
    result=PreviewDo,
    needs=(_ADOPT,),
    errors=_TARGET_MISSES,
    extension=True,
)
def show_preview(call: Call, parameters: Target) -> PreviewDo:
    cluster = _cluster(call, parameters.cluster, _ADOPT)
    tenant = _account(call, parameters.account)
    instance = queries.bare_instance(tenant, cluster)
    return _previewed(cluster, tenant, instance, preview(queries.chosen(cluster, parameters.choice), tenant, instance))


@operation(
    "adoption/adopt",
    service=_SERVICE,
    summary="Give names that no account has to an account, as they are",
    description="Nothing changes on the cluster. A worker does it in steps of 500 names: `adoption/run` tells how far "
    "it is. The account's instance without namespace is made where there is none. Names that cannot be adopted are "
    "left out; more than the account's limits allow are refused as a whole.",
    parameters=Adopt,
    result=RunDo,
    needs=(_ADOPT,),
    changes=True,
    errors=(*_TARGET_MISSES, *_TOO_MANY, "BIZ_INSTANCE_EXISTED", "BIZ_INSTANCE_QUOTA_EXCEEDED"),
    extension=True,
)
def adopt(call: Call, parameters: Adopt) -> RunDo:
    cluster = _cluster(call, parameters.cluster, _ADOPT)
    tenant = _account(call, parameters.account)
    names = [one for one in queries.chosen(cluster, parameters.choice) if not one.refusal]
    run = services.adopt_for(
        actor=call.actor, cluster=cluster, names=names, tenant=tenant, instance_name=parameters.instanceName
    )
    return _described(run)


@operation(
    "adoption/forget",
    service=_SERVICE,
    summary="Forget adopted names",
    description="Their accounts let go of them; the cluster keeps them with their messages and offsets, and no rule "
    "adopts them again. At least one name or pattern is needed. A run for each account's instance.",
    parameters=Chosen,
    result=list[RunDo],
    needs=(_ADOPT,),
    changes=True,
    errors=_CLUSTER_MISSES,
    extension=True,
)
def forget(call: Call, parameters: Chosen) -> list[RunDo]:
    cluster = _cluster(call, parameters.cluster, _ADOPT)
    if not (parameters.names.strip(" ,\n\r\t") or parameters.include):
        raise Refused(FIELD, "Say which names: give names or include, which may be * for all of them.", "include")
    names = queries.adopted(call.actor, cluster, parameters.choice)
    return [_described(run) for run in services.forget_each(actor=call.actor, names=names)]


@operation(
    "adoption/forgetRun",
    service=_SERVICE,
    summary="Forget what a run has adopted",
    parameters=RunOnly,
    result=RunDo,
    needs=(_ADOPT,),
    changes=True,
    errors=_RUN_MISSES,
    extension=True,
)
def forget_run(call: Call, parameters: RunOnly) -> RunDo:
    return _described(services.undo(actor=call.actor, run=_run(call, parameters.run, _ADOPT)))


@operation(
    "adoption/runs",
    service=_SERVICE,
    summary="Runs that adopted or forgot names",
    description="The latest first.",
    parameters=OnCluster,
    result=RunDo,
    paged=True,
    needs=(_LOOK,),
    errors=_CLUSTER_MISSES,
    extension=True,
)
def list_runs(call: Call, parameters: OnCluster) -> Page:
    cluster = _cluster(call, parameters.cluster, _LOOK)
    return page_of(parameters, queries.runs(call.actor, cluster).select_related("cluster"), _described)


@operation(
    "adoption/run",
    service=_SERVICE,
    summary="How far a run is",
    parameters=RunOnly,
    result=RunDo,
    needs=(_LOOK,),
    errors=_RUN_MISSES,
    extension=True,
)
def show_run(call: Call, parameters: RunOnly) -> RunDo:
    return _described(_run(call, parameters.run, _LOOK))


@operation(
    "adoption/runNames",
    service=_SERVICE,
    summary="What became of the names of a run",
    description="Those that wait first, then those that were refused.",
    parameters=RunNames,
    result=RunNameDo,
    paged=True,
    needs=(_LOOK,),
    errors=_RUN_MISSES,
    extension=True,
)
def run_names(call: Call, parameters: RunNames) -> Page:
    run = _run(call, parameters.run, _LOOK)

    def tell(row: RunName) -> RunNameDo:
        return RunNameDo(kind=row.kind, name=row.name, state=row.state, reason=row.reason)

    return page_of(parameters, queries.names(run, state=parameters.state), tell)


@operation(
    "adoption/rules",
    service=_SERVICE,
    summary="Rules that adopt by themselves",
    parameters=OnCluster,
    result=RuleDo,
    paged=True,
    needs=(_LOOK,),
    errors=_CLUSTER_MISSES,
    extension=True,
)
def list_rules(call: Call, parameters: OnCluster) -> Page:
    cluster = _cluster(call, parameters.cluster, _LOOK)
    return page_of(parameters, queries.rules(call.actor, cluster).select_related("cluster"), _rule_described)


@operation(
    "adoption/createRule",
    service=_SERVICE,
    summary="Let names that fit belong to an account, those that come later too",
    description="Workers look every minute. Of several rules that fit a name, the one that names it most closely takes "
    "it, then the oldest.",
    parameters=RuleCreate,
    result=RuleDo,
    needs=("platform:CreateRule",),
    changes=True,
    errors=(*_TARGET_MISSES, "BIZ_RULE_EXISTED", "BIZ_INSTANCE_EXISTED", "BIZ_INSTANCE_QUOTA_EXCEEDED"),
    extension=True,
)
def create_rule(call: Call, parameters: RuleCreate) -> RuleDo:
    access.anywhere(call.actor, "platform:CreateRule")
    cluster = _cluster(call, parameters.cluster, "platform:CreateRule")
    rule = services.create_rule_for(
        actor=call.actor,
        tenant=_account(call, parameters.account),
        cluster=cluster,
        include=parameters.include,
        exclude=parameters.exclude,
        kind=parameters.kind,
    )
    return _rule_described(rule)


@operation(
    "adoption/deleteRule",
    service=_SERVICE,
    summary="End a rule",
    description="What it has adopted stays where it is.",
    parameters=RuleOnly,
    result=Nothing,
    needs=("platform:DeleteRule",),
    changes=True,
    errors=("BIZ_RULE_NOT_FOUND",),
    extension=True,
)
def delete_rule(call: Call, parameters: RuleOnly) -> dict[str, Any]:
    access.anywhere(call.actor, "platform:DeleteRule")
    rule = queries.find_rule(call.actor, parameters.rule)
    if rule is None:
        raise Refused("BIZ_RULE_NOT_FOUND", f"There is no rule {parameters.rule}.", "rule")
    services.delete_rule(actor=call.actor, rule=rule)
    return NOTHING


def _cluster(call: Call, name: str, action: str) -> Cluster:
    """The cluster of this name, or the only one. Raises PermissionDenied, Refused."""
    access.anywhere(call.actor, action)
    found = [one for one in queries.clusters() if not regions.are_several() or one.region == call.region]
    if not name and len(found) == 1:
        return found[0]
    named = next((one for one in found if one.name == name), None)
    if named is None:
        there = ", ".join(one.name for one in found) or "none"
        message = f"There is no cluster {name}." if name else f"The parameter cluster is missing; there is: {there}."
        raise Refused("BIZ_CLUSTER_NOT_FOUND" if name else FIELD, message, "cluster")
    return named


def _account(call: Call, name: str) -> Tenant:
    """The account of this name that the caller may adopt for, or the caller's own. Raises Refused."""
    own = call.actor.own_tenant
    if not name and own is None:
        raise Refused(FIELD, "The parameter account is missing: say who gets the names.", "account")
    found = queries.account(call.actor, name) if name else own
    if found is None:
        raise Refused("BIZ_ACCOUNT_NOT_FOUND", f"There is no account {name} that you may adopt for.", "account")
    return found


def _run(call: Call, number: int, action: str) -> Run:
    access.anywhere(call.actor, action)
    found = queries.find_run(call.actor, number)
    if found is None:
        raise Refused("BIZ_ADOPTION_RUN_NOT_FOUND", f"There is no run {number}.", "run")
    return found


def _line(line: Line) -> UnownedDo:
    one = line.unowned
    return UnownedDo(
        kind=one.kind,
        name=one.name,
        refusal=one.refusal,
        forgotten=one.forgotten,
        differing=one.differing,
        messagesPerSecond=line.rate,
        amount=line.amount,
        lastUseTime=line.last_use_ms,
    )


def _previewed(cluster: Cluster, tenant: Tenant, instance: Instance | None, found: Preview) -> PreviewDo:
    differing = found.differing
    return PreviewDo(
        cluster=cluster.name,
        account=tenant.name,
        instanceId=instance.instance_id if instance else "",
        topics=len(found.of(Kind.TOPIC)),
        groups=len(found.of(Kind.GROUP)),
        refused=len(found.refused),
        refusedNames=[NamedDo(kind=one.kind, name=one.name, reason=one.refusal) for one in found.refused[:_TOLD]],
        differing=len(differing),
        differingNames=[NamedDo(kind=one.kind, name=one.name, reason=one.differing) for one in differing[:_TOLD]],
        tooMany=list(found.too_many.values()),
    )


def _described(run: Run) -> RunDo:
    counts = queries.counts(run)
    return RunDo(
        run=run.pk,
        purpose=Purpose(run.purpose).value,
        cluster=run.cluster.name,
        account=run.instance.tenant.name,
        instanceId=run.instance.instance_id,
        rule=run.rule_id,
        requester=run.requester,
        total=counts["total"],
        waiting=counts[State.WAITING],
        done=counts[State.DONE],
        refused=counts[State.REFUSED],
        error="" if run.ended_at else run.error,
        createTime=milliseconds(run.created_at),
        endTime=milliseconds(run.ended_at) if run.ended_at else None,
    )


def _rule_described(rule: Rule) -> RuleDo:
    return RuleDo(
        rule=rule.pk,
        cluster=rule.cluster.name,
        account=rule.instance.tenant.name,
        instanceId=rule.instance.instance_id,
        include=rule.include,
        exclude=rule.exclude,
        kind=rule.kind,
        creator=rule.creator,
        createTime=milliseconds(rule.created_at),
        taken=getattr(rule, "took", 0),
    )
