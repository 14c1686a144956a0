"""`python -m trm`: the same as the command `trm`."""

from trm.commands.cli import main

if __name__ == "__main__":
    main()
