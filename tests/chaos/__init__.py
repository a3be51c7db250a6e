"""The whole product under load while its processes are killed: docs/chaos.md."""
