"""The MySQL protocol on asyncio.

limits      what a connection may take
stream      packets on a connection, in time and within sizes, with or without TLS
results     rows that are taken a piece at a time, and how they are written
session     what an application answers with, and how it weighs connections against each other
prepared    prepared statements and cursors of a connection
connection  sign-in and commands of one client
server      listening, and ending in order
"""
