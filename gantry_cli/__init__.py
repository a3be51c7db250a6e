"""The `gantry` command: the management API from a shell. Knows the server by HTTP only."""
