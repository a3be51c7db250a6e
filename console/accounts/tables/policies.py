"""Lists of policies and roles."""

from __future__ import annotations

import django_tables2 as tables
from django.template.loader import render_to_string

from console.accounts.models import Role
from console.accounts.policy_documents import trusted_names
from console.web.columns import CellColumn
from console.web.paging import column


class PolicyTable(tables.Table):  # type: ignore[misc]
    """What can be attached, and how often it is."""

    name = CellColumn(template_name="accounts/_policy_cell.html", verbose_name="Policy")
    kind = CellColumn(
        template_name="accounts/_policy_kind_cell.html", verbose_name="Kind", order_by=("tenant_id", "name")
    )
    attached = CellColumn(
        "{% load gantry %}{% number record.attached %}", verbose_name="Attached", attrs=column("num-cell")
    )
    updated_at = CellColumn("{% load gantry %}{% ago record.updated_at %}", verbose_name="Changed")


class RoleTable(tables.Table):  # type: ignore[misc]
    """Roles, whom they trust, and how many sessions they have now."""

    name = CellColumn(template_name="accounts/_role_cell.html", verbose_name="Role")
    trusts = tables.Column(empty_values=(), verbose_name="Trusts", orderable=False)
    policies = CellColumn(template_name="accounts/_role_policies_cell.html", verbose_name="Policies", orderable=False)
    sessions = CellColumn(
        "{% load gantry %}{% number record.sessions %}", verbose_name="Sessions", attrs=column("num-cell")
    )
    created_at = CellColumn("{% load gantry %}{% time record.created_at 'date' %}", verbose_name="Created")

    def render_trusts(self, record: Role) -> str:
        """Whom the trust policy lets in."""
        return render_to_string("accounts/_role_trust_cell.html", {"names": trusted_names(record.trust_policy)})


class SessionTable(tables.Table):  # type: ignore[misc]
    """Live sessions of one role."""

    session_name = tables.Column(verbose_name="Session")
    assumed_by = tables.Column(verbose_name="Assumed by")
    access_key_id = CellColumn("<code>{{ record.access_key_id }}</code>", verbose_name="AccessKey ID")
    created_at = CellColumn("{% load gantry %}{% ago record.created_at %}", verbose_name="Began")
    expires_at = CellColumn("{% load gantry %}{% time record.expires_at %}", verbose_name="Ends")
    end = CellColumn(
        template_name="accounts/_role_session_cell.html",
        verbose_name="",
        orderable=False,
        attrs=column("row-actions"),
    )
