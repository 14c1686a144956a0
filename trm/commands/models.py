"""`trm models`: list the weights that a name loads, or print model cards."""

import sys

from trm.checkpoints.names import about, elsewhere, named_weights
from trm.commands.arguments import Arguments, Parser

EXAMPLES = """\
examples:
  trm models                                   # names, with a line about each
  trm models lattice                           # its card: given, learned, proved, tested
  trm models runs/quickstart > README.md       # the card of a model of your own
  trm solve --checkpoint trm-quick-seed0 12x3  # weights by their name

A file or a folder with that name in the working folder has priority.
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    what = "weights, or any checkpoint, whose card is printed (default: a line about all weights)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    parser.add_import()


def run(args: Arguments) -> int:
    """List the weights, a line each, or print the cards of the named ones."""
    if args.names:
        args.find_checkpoints(*args.names)
        from trm.model_card import model_card

        print("\n".join(map(model_card, args.names)), end="")
        return 0
    found = {name: about(file) for name, file in named_weights().items()}
    lines = [
        (name, one.family, one.task, f"{one.parameters:,} parameters", one.results)
        for name, one in found.items()
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    for *columns, outcome in lines:
        padded = (f"{text:<{width}}" for text, width in zip(columns, widths, strict=True))
        print("  ".join([*padded, outcome]))
    # Beside the lines, which other programs read.
    note = "Verdicts are those that files note; `trm models NAME` checks one."
    print(note, file=sys.stderr)
    if len(found) == 1:
        args.info.print(f"\n{elsewhere()[0].upper()}{elsewhere()[1:]}.")
    return 0
