"""Databases whose changes are captured."""

from tests.support.mariadb import mariadb

__all__ = ["mariadb"]
