"""The whole product under load while its processes are killed: docs/develop/chaos.md."""
