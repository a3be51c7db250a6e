"""Change tracking: tasks that keep the row changes of a database as events in a log of the lake.

A task is a database, patterns of tables, and what became of them; consumer groups read its log. What captures is a
process of its own (`capturing`), so that who reads a log needs no password of a database and reaches none.
"""
