"""Feeds: event logs of inflow tasks whose events come from outside over HTTP (webhook), or by the clock (schedule).

A request is in the database, for good, before it is answered (`receiving`). The process of `manage.py tracking` moves
what is there into the feed's log, and adds what a schedule is due to send (`filling`): a log has one writer.
"""
