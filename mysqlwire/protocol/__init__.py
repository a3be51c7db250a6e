"""The MySQL protocol without I/O: nothing here imports asyncio, sockets or TLS.

packets    whole and partial packets, the fields of a payload
constants  numbers and flags of the protocol
charsets   character sets and collations
errors     errors with code and SQLSTATE
handshake  greeting, TLS request, sign-in with either password method, change of user
commands   what a client sends after signing in
answers    OK, EOF, errors, columns and rows
texts      where the parameters and the end of a statement are
"""
