"""`python -m fino` is the same as `fino`; torchrun uses it."""

from fino.cli.app import main

if __name__ == "__main__":
    main()
