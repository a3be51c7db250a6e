"""`python -m brokercore` starts a broker with the name-server role; settings come from the environment."""

from brokercore.server.app import main

if __name__ == "__main__":
    raise SystemExit(main())
