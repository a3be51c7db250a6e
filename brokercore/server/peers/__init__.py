"""The brokers that share one Redis: who they are, and what the cluster keeps in common.

`discovery` is who is there, `catching_up` what goes with a deleted topic or group, and what a broker does at its start
about what happened without it, `key_values` what the name server keeps for tools.
"""
