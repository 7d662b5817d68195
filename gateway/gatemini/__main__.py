"""`python -m gatemini`, the same as the console script."""

from gatemini.cli.main import main

if __name__ == "__main__":
    main()
