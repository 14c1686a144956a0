"""Entry point of `python -m trm`, which equals the command `trm`."""

from trm.commands.cli import main

if __name__ == "__main__":
    main()
