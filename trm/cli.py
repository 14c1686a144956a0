"""The command `trm`: one table from a command's name to what runs it."""

import argparse
import importlib
import os
import sys
from importlib.metadata import version

# name: (module, one line for the help). Modules are imported only when their command runs, so
# that drawing a canvas does not wait for a training framework.
COMMANDS = {
    "render": ("trm.commands.render", "draw a multiplication in the terminal or to a file"),
    "solve": ("trm.commands.solve", "work problems out with a trained model"),
    "demo": ("trm.commands.demo", "see what a trained model can do on problems held out"),
    "inspect": ("trm.commands.inspect", "one problem under the glass: steps, attention, states"),
    "evaluate": ("trm.commands.evaluate", "measure how far models get, digits x digits"),
    "trust": ("trm.commands.trust", "whether confidence and agreement tell right from wrong"),
    "compare": ("trm.commands.compare", "lay evaluations side by side, and say where they differ"),
    "export": ("trm.commands.export", "a checkpoint's weights as a safetensors file"),
    "doctor": ("trm.commands.doctor", "what is installed, what computes, what is missing"),
    "completion": ("trm.commands.completion", "a script with which a shell completes this command"),
}
TRAINING = {
    "fit": "train a model",
    "validate": "score a checkpoint on the validation split",
    "test": "score a checkpoint on the test split",
    "predict": "solve the test split",
}
DESCRIPTION = """\
Tiny recursive transformers that learn long multiplication on a 2D canvas.

examples:
  trm render 321x654 --layout lattice
  trm fit --config configs/quickstart.yaml
  trm fit --config configs/trm/small.yaml --trainer.max_steps 5000 --model.optimizer.lr 1e-3
  trm solve 123x456                                     # with the model that comes along
  trm solve --checkpoint runs/quickstart 123x45 7x8
  trm solve --input problems.csv --output answers.jsonl
  trm demo --checkpoint runs/quickstart
  trm inspect 123x456 --output glass
  trm evaluate --checkpoint runs/quickstart --digits-a 1..5 --digits-b 1..4 --output grid
  trm compare grid other-grid --output comparison
  trm trust answers.jsonl --output trust.png
  trm export --checkpoint runs/quickstart --output quickstart.safetensors --figures grid
  tensorboard --logdir runs
  trm completion bash > ~/.local/share/bash-completion/completions/trm
"""
EPILOG = """\
`trm COMMAND --help` tells more, with examples of its own.

Exit codes: 0 done, 1 a file had lines with errors or training met numbers that are not finite,
2 the call was wrong, 130 stopped by Ctrl-C.
"""


def command_parser(whole: bool = False) -> argparse.ArgumentParser:
    """What the command line looks like.

    Args:
        whole: with the arguments of every command but those of training, which LightningCLI makes.
    """
    parser = argparse.ArgumentParser(
        prog="trm",
        usage="trm COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"trm {version('canvas-trm')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, line in TRAINING.items():
        commands.add_parser(name, help=line, add_help=False)
    for name, (module, line) in COMMANDS.items():
        command = commands.add_parser(name, help=line, add_help=whole)
        if whole:
            importlib.import_module(module).add_arguments(command)
    return parser


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code."""
    name = arguments[0] if arguments else ""
    try:
        if name in TRAINING:
            from trm.training.cli import run as train

            train()  # LightningCLI reads the command line itself
            return 0
        if name in COMMANDS:
            module = importlib.import_module(COMMANDS[name][0])
            parser = argparse.ArgumentParser(prog=f"trm {name}", description=module.__doc__)
            module.add_arguments(parser)
            return module.run(parser.parse_args(arguments[1:]))
    except (ValueError, OSError, MemoryError) as error:
        print(f"trm {name}: {error}", file=sys.stderr)
        return 2
    except FloatingPointError as error:  # of training
        print(f"trm {name}: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit) as stop:
        # Lightning answers Ctrl-C by a SystemExit of its own.
        if not any(isinstance(e, KeyboardInterrupt) for e in (stop, stop.__context__)):
            raise
        if os.environ.get("LOCAL_RANK", "0") == "0":  # of a node's processes, one says it
            files = "--input" in " ".join(arguments) and "-" not in arguments  # no pipe
            resumed = name == "evaluate" or (name == "solve" and files)
            goes_on = "; the same command goes on where it was" if resumed else ""
            print(f"trm {name}: stopped{goes_on}", file=sys.stderr)
        return 130
    command_parser().parse_args(arguments)  # prints the help, the version or what was wrong
    return 2


def main() -> None:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))
