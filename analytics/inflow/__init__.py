"""Inflow tasks: row changes of databases, as events."""
