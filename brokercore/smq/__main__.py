"""`python -m brokercore.smq` starts the queue service; settings come from the environment."""

from brokercore.smq.server.app import main

if __name__ == "__main__":
    raise SystemExit(main())
