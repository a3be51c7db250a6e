"""Changes of databases, as events: captured, kept, chosen, transformed and delivered to a topic.

changes                what a capture of any database gives: changes, their events, what can go wrong
postgres               the capture of PostgreSQL
postgres_setup         what PostgreSQL needs for it: settings, rights, publication, slot
postgres_snapshot      the rows that were there before
postgres_transactions  decoded messages to changes
postgres_values        the text of a value to JSON
pgoutput               the stream of PostgreSQL's logical replication, without I/O
"""
