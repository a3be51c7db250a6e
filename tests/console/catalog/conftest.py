"""The cast of SQL: two tenants, each with tables of its own."""

from tests.support.sql_cast import cast, handed_over, kicked, no_acl

__all__ = ["cast", "handed_over", "kicked", "no_acl"]
