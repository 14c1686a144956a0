"""`trm models`: list the weights that a name loads, or print model cards."""

import sys
from collections.abc import Iterator
from itertools import groupby
from textwrap import fill

from trm.checkpoints.names import FileFacts, about, elsewhere, named_weights, only_packaged
from trm.commands.arguments import Arguments
from trm.commands.parser import Parser

EXAMPLES = """\
examples:
  trm models                                   # names by family, and what each family is good for
  trm models --all                             # a line about each: parameters, proof, tests
  trm models lattice                           # its card: given, learned, proved, tested
  trm models runs/quickstart > README.md       # the card of a model of your own
  trm solve --checkpoint trm-quick-seed0 12x3  # weights by their name

A file or a folder with that name in the working folder has priority.
"""
WIDTH = 100  # columns of the overview
TESTED = ("recursive", "GPT")  # families without proofs
# First words of a family's name, and what its models are good for.
GOOD_FOR = {
    "recursive": "Recursive transformers: learned, and sometimes wrong; augmented views can vote "
    "(--views 8). trm-lattice-whole-seed0 solves longer numbers in any orientation (--view random)",
    "GPT": "GPTs: baselines that write the canvas as a sequence; correct in the range of training",
    "cell model": "Cell models: proved correct at every length, but for those with a star, which "
    "are not proved",
    "cell model in int": "Cell models in integers: proved, with 4 or 8 bits for each weight",
}


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    what = "weights, or any checkpoint, whose card is printed (default: names by family)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    parser.add_argument("--all", action="store_true", help="print a line about each of the weights")
    parser.add_import()


def run(args: Arguments) -> int:
    """Print names of weights by family, a line about each, or the cards of the named ones."""
    if args.names and args.all:
        raise ValueError("--all lists weights: leave it out to print the cards of the named ones")
    if args.names:
        args.find_checkpoints(*args.names)
        from trm.extras.model_card import model_card

        print("\n".join(map(model_card, args.names)), end="")
        return 0
    found = {name: about(file) for name, file in named_weights().items()}
    print("\n".join(lines(found) if args.all else overview(found)))
    # Beside the lines, which other programs read.
    note = "Verdicts are those that files note; `trm models NAME` checks one."
    if not args.all:
        note = "`trm models --all` prints a line about each, `trm models NAME` a model card."
    print(note, file=sys.stderr)
    if only_packaged():
        args.info.print(f"\n{elsewhere()[0].upper()}{elsewhere()[1:]}.")
    return 0


def lines(found: dict[str, FileFacts]) -> Iterator[str]:
    """Yield a line about each of the weights, in columns."""
    rows = [
        (name, one.family, one.task, f"{one.parameters:,} parameters", one.results)
        for name, one in found.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *columns, outcome in rows:
        padded = (f"{text:<{width}}" for text, width in zip(columns, widths, strict=True))
        yield "  ".join([*padded, outcome])


def overview(found: dict[str, FileFacts]) -> Iterator[str]:
    """Yield families, what each is good for, and the names of its weights by task."""
    width = max(len(one.task) for one in found.values())
    for start, good_for in GOOD_FOR.items():
        family = [
            (one.task, name if one.results.startswith("proved") or start in TESTED else f"{name}*")
            for name, one in found.items()
            if start == max((s for s in GOOD_FOR if one.family.startswith(s)), key=len, default="")
        ]
        if not family:
            continue
        yield fill(f"{good_for}.", WIDTH, break_on_hyphens=False)
        for task, named in groupby(sorted(family), key=lambda pair: pair[0]):
            names = ", ".join(name for _, name in named)
            first = f"  {task:<{width}}  "
            yield fill(
                names,
                WIDTH,
                initial_indent=first,
                subsequent_indent=" " * len(first),
                break_on_hyphens=False,
            )
