"""`trm configs`: the configurations that come with the package, listed or printed."""

from trm.commands.arguments import Arguments, Parser
from trm.config_files import about, find_config, shipped_configs

EXAMPLES = """\
examples:
  trm configs                                # their names, and what each is
  trm configs quickstart                     # one as it is, every line explained
  trm configs quickstart > mine.yaml         # a copy, to be changed
  trm fit --config mine.yaml
"""


def add_arguments(parser: Parser) -> None:
    """The command's arguments."""
    what = "which, such as gpt/small_learned (default: all)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)


def run(args: Arguments) -> int:
    """List or print."""
    if args.names:
        files = [find_config(name) for name in args.names]
        print("\n".join(file.read_text(encoding="utf-8") for file in files), end="")
        return 0
    found = shipped_configs()
    indent = max(map(len, found)) + 2
    for name, file in found.items():
        print(f"{name:<{indent}}{about(file)}")
    return 0
