"""`trm completion`: a script with which a shell completes this command."""

import argparse

from trm.commands.arguments import add_verbosity

EXAMPLES = """\
examples:
  trm completion bash > ~/.local/share/bash-completion/completions/trm
  trm completion zsh > ~/.zsh/completions/_trm      # a folder of $fpath
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from trm.cli import TRAINING, command_parser  # which imports this module

    parser = command_parser(whole=True)
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for name in TRAINING:  # of LightningCLI's hundreds, those that begin a command
        add_verbosity(commands.choices[name])
        for option in ("--config", "--ckpt_path", "--seed", "--print_config"):
            commands.choices[name].add_argument(option)
    print(shtab.complete(parser, args.shell))
    return 0
