"""Writes of the accounts, a module a subject. Each is audited and reaches the broker on commit."""

from console.accounts.services.keys import (
    MAX_KEYS_PER_USER,
    IssuedKey,
    create_access_key,
    delete_access_key,
    set_access_key_enabled,
)
from console.accounts.services.roles import ROLE_SESSION, assume_role, create_role
from console.accounts.services.tenants import create_tenant
from console.accounts.services.users import (
    create_user,
    reset_password,
    set_database_password,
    set_user_enabled,
    set_user_policies,
)

__all__ = [
    "MAX_KEYS_PER_USER",
    "ROLE_SESSION",
    "IssuedKey",
    "assume_role",
    "create_access_key",
    "create_role",
    "create_tenant",
    "create_user",
    "delete_access_key",
    "reset_password",
    "set_access_key_enabled",
    "set_database_password",
    "set_user_enabled",
    "set_user_policies",
]
