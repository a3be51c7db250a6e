"""Messages, positions and configurations on Redis. docs/operate/storage.md lists every key.

`store` with `queue`, `index`, `parking` and `parked_bytes` has the messages; `topics`, `groups`, `offsets` are tables.
`redis_connection` with `sole_writer` speaks to Redis, `keys` names what is there. `recovery` puts right what a crash
left, `retention` drops what is old.
"""
