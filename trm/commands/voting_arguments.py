"""Arguments of the commands that can ask many views, and how they are read."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from augment.symmetry import SYMMETRIES
from canvas.choices import check_choice
from trm.commands.arguments import number, whole
from trm.solving.voting_settings import PER, VOTES, Voting

if TYPE_CHECKING:
    from trm.solving.solver import Solver


def add_voting(parser: argparse.ArgumentParser) -> None:
    """The arguments that `with_voting` reads."""
    group = parser.add_argument_group(
        "many views", "look at each problem several times, and let the answers vote"
    )
    group.add_argument(
        "--views",
        type=whole(1),
        default=1,
        metavar="N",
        help="different views of a problem at most: symmetries and shifts, the problem as it is "
        "among them (default: 1)",
    )
    group.add_argument(
        "--symmetries",
        type=_symmetries,
        metavar="NAMES",
        help=f"of the views, like e,h: {', '.join(SYMMETRIES)}; or all; or trained, those of "
        "training (default)",
    )
    votes = "; ".join(f"{name}: {meaning}" for name, meaning in VOTES.items())
    group.add_argument(
        "--vote", choices=VOTES, default="majority", help=f"{votes} (default: majority)"
    )
    group.add_argument(
        "--vote-per",
        choices=PER,
        default="row",
        help="vote on each row, which all views then go on from, or on the solutions of views "
        "that work alone (default: row)",
    )
    group.add_argument(
        "--rollouts",
        type=whole(1),
        default=1,
        metavar="K",
        help="of each view, all but the first with noise (default: 1)",
    )
    group.add_argument(
        "--noise",
        type=number(0),
        default=0.0,
        metavar="SIGMA",
        help="of rollouts of a recursive model: added to its states before every supervision step",
    )
    group.add_argument(
        "--temperature",
        type=number(0),
        default=0.0,
        metavar="TAU",
        help="of rollouts of a GPT: its symbols are drawn",
    )
    group.add_argument(
        "--orders",
        type=int,
        choices=(1, 2),
        default=1,
        help="2: each problem with its operands the other way round, too (default: 1)",
    )
    group.add_argument(
        "--vote-seed", type=whole(0), default=0, help="which views and noise (default: 0)"
    )


def voting_of(args: argparse.Namespace) -> Voting | None:
    """What the arguments of `add_voting` ask for; None: one view.

    Raises:
        ValueError: views that cannot be.
    """
    voting = Voting(
        views=args.views,
        symmetries=args.symmetries,
        vote=args.vote,
        per=args.vote_per,
        rollouts=args.rollouts,
        noise=args.noise,
        temperature=args.temperature,
        seed=args.vote_seed,
        orders=args.orders,
    )
    return voting if voting.samples > 1 else None


def with_voting(solver: Solver, args: argparse.Namespace) -> Solver:
    """A solver that asks as many views as asked for, with a note if it was not trained on them.

    Raises:
        ValueError: views that cannot be, or that the model has no use for.
    """
    voting = voting_of(args)
    if voting is None:
        return solver
    solver = solver.with_voting(voting)
    untrained = [name for name in voting.symmetries or () if name not in solver.trained_symmetries]
    if untrained and os.environ.get("LOCAL_RANK", "0") == "0":
        print(
            f"note: this model was trained on {', '.join(solver.trained_symmetries)} alone "
            f"(e is upright), not on views turned or mirrored by {', '.join(untrained)}; "
            "--symmetries trained leaves them out",
            file=sys.stderr,
        )
    return solver


def _symmetries(text: str) -> tuple[str, ...] | None:
    """Names of symmetries, for argparse; None: those of training."""
    if text == "trained":
        return None
    names = tuple(SYMMETRIES) if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        try:
            check_choice("a symmetry", name, SYMMETRIES)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names
