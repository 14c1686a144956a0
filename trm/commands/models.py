"""`trm models`: the weights that a name loads, with what their files say of them."""

from trm.checkpoints.names import about, elsewhere, named_weights
from trm.commands.arguments import Arguments, Parser

EXAMPLES = """\
examples:
  trm models                                   # names, and what each is
  trm solve --checkpoint trm-quick-seed0 12x3  # weights by their name

A file, or a folder, of that name in the working folder has priority.
"""


def add_arguments(parser: Parser) -> None:
    """The command has none."""


def run(args: Arguments) -> int:
    """List them, a line each."""
    found = {name: about(file) for name, file in named_weights().items()}
    lines = [
        (name, one.family, one.task, f"{one.parameters:,} parameters", one.told)
        for name, one in found.items()
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    for *columns, told in lines:
        padded = (f"{text:<{width}}" for text, width in zip(columns, widths, strict=True))
        print("  ".join([*padded, told]))
    if len(found) == 1:
        args.info.print(f"\n{elsewhere()[0].upper()}{elsewhere()[1:]}.")
    return 0
