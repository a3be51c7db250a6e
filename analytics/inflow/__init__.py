"""Inflow tasks: changes of databases as events, kept in a log, filtered, shaped and delivered. No Django, no Spark."""
