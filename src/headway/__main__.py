"""`python -m headway` is the command line."""

from headway.cli import main

# A process that runs tasks imports this module again, under another name.
if __name__ == "__main__":
    main()
