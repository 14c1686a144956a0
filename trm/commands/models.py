"""`trm models`: list the weights that a name loads, with the description in each file."""

from trm.checkpoints.names import about, elsewhere, named_weights
from trm.commands.arguments import Arguments, Parser

EXAMPLES = """\
examples:
  trm models                                   # names, with a line about each
  trm solve --checkpoint trm-quick-seed0 12x3  # weights by their name

A file or a folder with that name in the working folder has priority.
"""


def add_arguments(parser: Parser) -> None:
    """Add no arguments: the command has none."""


def run(args: Arguments) -> int:
    """List the weights, a line each."""
    found = {name: about(file) for name, file in named_weights().items()}
    lines = [
        (name, one.family, one.task, f"{one.parameters:,} parameters", one.results)
        for name, one in found.items()
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    for *columns, outcome in lines:
        padded = (f"{text:<{width}}" for text, width in zip(columns, widths, strict=True))
        print("  ".join([*padded, outcome]))
    if len(found) == 1:
        args.info.print(f"\n{elsewhere()[0].upper()}{elsewhere()[1:]}.")
    return 0
