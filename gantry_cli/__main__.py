"""`python -m gantry_cli`, where the command itself is not installed."""

from gantry_cli.main import main

if __name__ == "__main__":
    main()
