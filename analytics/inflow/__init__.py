"""Inflow tasks: row changes of databases as events, filtered, shaped and delivered to a topic. No Django, no Spark."""
