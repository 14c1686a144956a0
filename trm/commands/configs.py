"""`trm configs`: the configurations that come with the package, listed, printed or copied."""

import argparse
import shutil
import sys
import textwrap
from pathlib import Path

from trm.commands.arguments import info_console
from trm.configs import SUFFIX, about, shipped_config, shipped_configs

EXAMPLES = """\
examples:
  trm configs                                # their names, and what each is
  trm configs quickstart                     # one as it is, every line explained
  trm configs --copy mine quickstart         # mine/quickstart.yaml, to be changed
  trm fit --config mine/quickstart.yaml
"""
_WHOLE = 1000  # characters: where no terminal has to show it, each one's line is whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which, such as gpt/small_learned (default: all)"
    )
    parser.add_argument(
        "--copy", metavar="DIR", help="copy them into a folder; no file is overwritten"
    )


def run(args: argparse.Namespace) -> int:
    """List, print or copy."""
    found = shipped_configs()
    if args.names:
        files = [shipped_config(name) for name in args.names]
        found = {name: file for name, file in found.items() if file in files}
    if args.copy is not None:
        for copy in copied(found, args.copy):
            info_console(args).print(copy)
    elif args.names:
        print("\n".join(file.read_text(encoding="utf-8") for file in found.values()), end="")
    else:
        terminal = shutil.get_terminal_size().columns
        print(listed(found, terminal if sys.stdout.isatty() else _WHOLE))
    return 0


def listed(configs: dict[str, Path], width: int) -> str:
    """The names of configurations, and what each is, in lines of at most this many characters."""
    indent = max(map(len, configs)) + 2
    return "\n".join(
        textwrap.fill(
            f"{name:<{indent}}{about(file)}",
            max(width, 2 * indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
        for name, file in configs.items()
    )


def copied(configs: dict[str, Path], folder: str) -> list[Path]:
    """Copy configurations into a folder, all of them or none; returns the copies.

    Raises:
        ValueError: the folder is none, or holds a file of such a name already.
    """
    if not folder:
        raise ValueError("the name after --copy is empty: name a folder")
    copies = {Path(folder, f"{name}{SUFFIX}"): file for name, file in configs.items()}
    for copy in copies:
        if copy.exists() or copy.is_symlink():
            raise ValueError(f"{copy} is there already, and stays: choose another folder")
    for copy, file in copies.items():
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"--copy {folder} is no folder to write to") from None
        with copy.open("xb") as written:
            written.write(file.read_bytes())
    return list(copies)
