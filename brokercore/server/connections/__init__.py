"""Connections: their first bytes, their share of the loop, and who is on them.

`tls_detection` (TLS or plain) → `gate` (strangers) → `connection` (bytes to commands and back, fields of them in
`headers`). Who may use the loop: `fairness` between accounts, for long requests and for what one client asks for;
`write_batching` says when gathered writes leave. `clients` is the table of who is online, with queue locks.
"""
