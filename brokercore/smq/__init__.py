"""The queue service (SMQ, formerly MNS): queues and topics over HTTP and XML, kept in Redis (docs/operate/queues.md).

`wire` reads and writes bytes without I/O; `storage` holds the scripts that change a queue; `server` listens.
"""
