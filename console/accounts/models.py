"""Who there is: organizations, tenants, RAM users, roles, policies, AccessKeys (docs/use/permissions.md)."""

from __future__ import annotations

import secrets
import string

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext as _

#: Of the numbers that name accounts and users.
TENANT_DIGITS, USER_DIGITS = 16, 18


def new_uid(length: int) -> str:
    """So many random digits, the first of them not 0."""
    return secrets.choice("123456789") + "".join(secrets.choice(string.digits) for _ in range(length - 1))


class Organization(models.Model):
    """A department; nested, level 1 has no parent. Called "department" in API responses."""

    name = models.CharField(max_length=64)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["parent", "name"], name="organization_name_in_parent")]

    def __str__(self) -> str:
        return self.name


class ResourceSet(models.Model):
    """A group of instances inside one organization. Called "resource group" in API responses."""

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="resource_sets")
    name = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organization", "name"], name="resource_set_name")]

    def __str__(self) -> str:
        return self.name


class Tenant(models.Model):
    """A tenant account: the owner of instances, topics, groups, schemas and RAM users."""

    uid = models.CharField(max_length=16, unique=True)
    name = models.SlugField(max_length=32, unique=True)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="tenants")
    enabled = models.BooleanField(default=True)
    may_adopt = models.BooleanField(
        default=False, help_text="may see the topics and groups that no account has, and take them into its instances"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class TenantLimits(models.Model):
    """What one tenant may use of the embedded brokers, where it differs from GANTRY_TENANT_…: 0 is no limit."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="own_limits")
    connections = models.PositiveBigIntegerField(null=True, blank=True)
    topics = models.PositiveBigIntegerField(null=True, blank=True)
    groups = models.PositiveBigIntegerField(null=True, blank=True)
    queues = models.PositiveBigIntegerField(null=True, blank=True)
    messages_per_second = models.PositiveBigIntegerField(null=True, blank=True)
    bytes_per_second = models.PositiveBigIntegerField(null=True, blank=True)
    stored_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    sql_connections = models.PositiveBigIntegerField(null=True, blank=True)
    lake_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    result_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    parsing_seconds = models.PositiveBigIntegerField(null=True, blank=True)
    smq_queues = models.PositiveBigIntegerField(null=True, blank=True)
    smq_messages = models.PositiveBigIntegerField(null=True, blank=True)
    smq_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    smq_calls_per_second = models.PositiveBigIntegerField(null=True, blank=True)
    smq_waiting = models.PositiveBigIntegerField(null=True, blank=True)
    jobs = models.PositiveBigIntegerField(null=True, blank=True)
    running_jobs = models.PositiveBigIntegerField(null=True, blank=True)
    tracking_tasks = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "tenant limits"

    def __str__(self) -> str:
        return f"limits of {self.tenant_id}"


class TenantUse(models.Model):
    """What one tenant has stored in the lake, as `console.catalog.storage` keeps it: what comes is added at once."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="use")
    lake_bytes = models.BigIntegerField(default=0, help_text="of all files in its buckets")
    result_bytes = models.BigIntegerField(default=0, help_text="of all its results that are kept")
    arriving_bytes = models.BigIntegerField(default=0, help_text="of files that are being written to its buckets")
    arriving_at = models.DateTimeField(null=True, blank=True, help_text="when the first of them began")
    counted_at = models.DateTimeField(null=True, blank=True, help_text="none: something has changed since")
    counts = models.BigIntegerField(default=0, help_text="how often it was counted: of counts at once one is taken")

    class Meta:
        verbose_name_plural = "tenant uses"

    def __str__(self) -> str:
        return f"use of {self.tenant_id}"


class User(AbstractUser):
    """A person (or program) of a tenant; the user name is `name@tenant`.

    With `is_tenant_admin` it acts for the tenant account itself, otherwise it is a RAM user, which may do
    nothing that no policy allows. With `is_platform_admin` it belongs to no tenant: it keeps organizations, resource
    sets and tenant accounts, and has no rights inside them.
    """

    uid = models.CharField(max_length=18, unique=True)
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.PROTECT, related_name="users")
    is_tenant_admin = models.BooleanField(default=False)
    is_platform_admin = models.BooleanField(default=False)
    mfa_required = models.BooleanField(default=False)
    must_change_password = models.BooleanField(default=False)
    policies: models.ManyToManyField[Policy, models.Model] = models.ManyToManyField(
        "Policy", related_name="users", blank=True
    )

    class Meta(AbstractUser.Meta):
        # The sign-in compares without regard to case: two such names would lock each other out.
        constraints = [models.UniqueConstraint(Lower("username"), name="user_name_in_any_case")]


class UserGroup(models.Model):
    """RAM users with the same policies."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="user_groups")
    name = models.CharField(max_length=64)
    description = models.CharField(max_length=256, blank=True)
    users = models.ManyToManyField(User, related_name="user_groups", blank=True)
    policies: models.ManyToManyField[Policy, models.Model] = models.ManyToManyField(
        "Policy", related_name="user_groups", blank=True
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="user_group_name_in_tenant")]

    def __str__(self) -> str:
        return self.name


class Policy(models.Model):
    """A RAM policy document. System policies belong to no tenant and cannot be changed."""

    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="policies")
    name = models.CharField(max_length=128)
    description = models.CharField(max_length=256, blank=True)
    document = models.JSONField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "policies"
        # Two constraints, since SQLite knows no NULLS NOT DISTINCT and would have none at all.
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="policy_name_in_tenant"),
            models.UniqueConstraint(fields=["name"], condition=models.Q(tenant=None), name="policy_name_of_system"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def shown_description(self) -> str:
        """What a page says of it: of a system policy in the visitor's language."""
        return self.description if self.tenant_id is not None or not self.description else _(self.description)


class Role(models.Model):
    """Rights without a person: a trusted service or account assumes them for a while (STS)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="roles")
    name = models.CharField(max_length=64)
    description = models.CharField(max_length=256, blank=True)
    trust_policy = models.JSONField()
    policies = models.ManyToManyField(Policy, related_name="roles", blank=True)
    max_session_s = models.PositiveIntegerField(default=3600, help_text="longest session, seconds")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="role_name_in_tenant")]

    def __str__(self) -> str:
        return self.name


class AccessKey(models.Model):
    """An AccessKey pair: of a user, of an organization (for one of its accounts), or temporary (STS) of a role.

    The secret is encrypted at rest.
    """

    access_key_id = models.CharField(max_length=64, unique=True)
    secret_encrypted = models.TextField()
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="access_keys")
    role = models.ForeignKey(Role, null=True, blank=True, on_delete=models.CASCADE, related_name="access_keys")
    organization = models.ForeignKey(
        Organization, null=True, blank=True, on_delete=models.CASCADE, related_name="access_keys"
    )
    tenant = models.ForeignKey(
        Tenant, null=True, blank=True, on_delete=models.CASCADE, help_text="the account an organization's key acts for"
    )
    security_token = models.CharField(max_length=512, blank=True)
    session_name = models.CharField(max_length=64, blank=True, help_text="of an assumed role")
    assumed_by = models.CharField(max_length=150, blank=True, help_text="who assumed the role")
    expires_at = models.DateTimeField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=False, role__isnull=True, organization__isnull=True)
                | models.Q(user__isnull=True, role__isnull=False, organization__isnull=True)
                | models.Q(user__isnull=True, role__isnull=True, organization__isnull=False, tenant__isnull=False),
                name="access_key_of_one_holder",
            )
        ]

    def __str__(self) -> str:
        return self.access_key_id


class SingleSignOn(models.Model):
    """A tenant's OpenID Connect provider. Its client secret is encrypted at rest."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="single_sign_on")
    issuer = models.URLField(max_length=255, help_text="address of the provider, without /.well-known/…")
    client_id = models.CharField(max_length=255)
    client_secret_encrypted = models.TextField(blank=True)
    user_claim = models.CharField(max_length=64, default="preferred_username", help_text="claim that names the user")
    create_users = models.BooleanField(default=False, help_text="unknown names become RAM users without policies")
    enabled = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.issuer


class DatabaseAccount(models.Model):
    """Sign-in of a user at the MySQL endpoint.

    Only what both MySQL methods need to check a scramble is kept (the hash of the hash of the password), so the
    password cannot be read back.
    """

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="database_account")
    name = models.CharField(max_length=64, unique=True)
    sha1_of_sha1 = models.CharField(max_length=40)
    sha256_of_sha256 = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.name


class SavedView(models.Model):
    """What a person filters a list by, how it is sorted and which columns are left out, under a name."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    list_name = models.CharField(max_length=90)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000, blank=True, help_text="query of the list's address")
    is_default = models.BooleanField(default=False, help_text="the list opens with it")
    shared = models.BooleanField(default=False, help_text="offered to everybody of the account")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "list_name", "name"], name="saved_view_name_of_user_and_list")
        ]

    def __str__(self) -> str:
        return self.name
