"""`python -m lab …`, from a clone."""

from lab.app import main

if __name__ == "__main__":
    main()
