"""The embedded broker: name server and broker in one process, messages on Redis Streams (docs/operate/broker.md).

`app` is the process, `broker` has the parts, `dispatch` finds a request's handler in `handlers/`, `upkeep` runs what
goes on beside requests, `watching` serves figures and health.
"""
