"""`python -m cli`, where the command itself is not installed."""

from cli.main import main

if __name__ == "__main__":
    main()
