"""The server side of the MySQL protocol, for servers that are no MySQL.

`mysqlwire.protocol` is the protocol without I/O: bytes in, values out, and back. `mysqlwire.aio` serves it on asyncio:
a stream with limits and deadlines, the life of one connection, a listening server. Neither knows SQL, accounts or where
rows come from; a `mysqlwire.aio.session.Session` of the application does.

The names of pages in docstrings are those of MySQL's Source Code Documentation, "Client/Server Protocol".
"""
