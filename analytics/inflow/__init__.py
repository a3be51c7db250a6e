"""Inflow tasks: changes of databases and other events on their way into a topic. No Django and no Spark."""
