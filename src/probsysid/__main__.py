"""`python -m probsysid` is the command line."""

from probsysid.cli import main

if __name__ == "__main__":
    main()
