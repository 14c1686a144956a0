"""`trm configs`: the configurations that come with the package, listed, printed or copied."""

import argparse
from pathlib import Path

from trm.commands.arguments import info_console
from trm.configs import SUFFIX, about, find_config, shipped_configs

EXAMPLES = """\
examples:
  trm configs                                # their names, and what each is
  trm configs quickstart                     # one as it is, every line explained
  trm configs --copy mine quickstart         # mine/quickstart.yaml, to be changed
  trm fit --config mine/quickstart.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    what = "which, such as gpt/small_learned (default: all)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    what = "copy them into a folder; no file is overwritten"
    parser.add_argument("--copy", metavar="DIR", help=what)


def run(args: argparse.Namespace) -> int:
    """List, print or copy."""
    found = shipped_configs()
    if args.names:
        files = [find_config(name, own=False) for name in args.names]
        found = {name: file for name, file in found.items() if file in files}
    if args.copy == "":
        raise ValueError("the name after --copy is empty: name a folder")
    if args.copy is not None:  # all of them or none
        copies = {Path(args.copy, f"{name}{SUFFIX}"): file for name, file in found.items()}
        if there := [copy for copy in copies if copy.exists() or copy.is_symlink()]:
            raise ValueError(f"{there[0]} is there already, and stays: choose another folder")
        for copy, file in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("xb") as written:
                written.write(file.read_bytes())
            info_console(args).print(copy)
    elif args.names:
        print("\n".join(file.read_text(encoding="utf-8") for file in found.values()), end="")
    else:
        indent = max(map(len, found)) + 2
        for name, file in found.items():
            print(f"{name:<{indent}}{about(file)}")
    return 0
