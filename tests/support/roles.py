"""Roles of the tests: whom they trust, and keys of those who assume them."""

from __future__ import annotations

from typing import Any

from console.accounts import services
from console.accounts.actor import Actor
from console.accounts.models import Role
from console.accounts.policy_documents import system_policy
from console.accounts.services import IssuedKey


def trusting(*principals: str, **more: Any) -> dict[str, Any]:
    """A trust policy for RAM principals (`acs:ram::…`) and services."""
    names = {
        "RAM": [p for p in principals if p.startswith("acs:")],
        "Service": [p for p in principals if not p.startswith("acs:")],
    }
    principal = {kind: found for kind, found in names.items() if found}
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal, **more}
    return {"Version": "1", "Statement": [statement]}


def make_role(
    actor: Actor, name: str = "Sender", *policies: str, trust: dict[str, Any] | None = None, **more: Any
) -> Role:
    """A role with system policies; trusts the actor's whole account unless said otherwise."""
    return services.create_role(
        actor=actor,
        name=name,
        description="",
        trust_policy=trust or trusting(f"acs:ram::{actor.tenant.uid}:root"),
        policies=[system_policy(p) for p in policies],
        **more,
    )


def role_key(actor: Actor, *policies: str, session_name: str = "nightly", **more: Any) -> IssuedKey:
    """Temporary keys of a new role of the actor's account, drawn by the actor itself."""
    return services.assume_role(
        actor=actor, role=make_role(actor, "Sender", *policies), session_name=session_name, **more
    )
