"""`trm configs`: list or print the configurations that come with the package."""

from trm.commands.arguments import Arguments
from trm.commands.parser import Parser
from trm.io.config_files import about, find_config, shipped_configs

EXAMPLES = """\
examples:
  trm configs                                # their names, with a line about each
  trm configs quickstart                     # one config, every line explained
  trm configs quickstart > mine.yaml         # a copy to change
  trm fit --config mine.yaml
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    what = "a config, such as gpt/small_learned (default: all)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)


def run(args: Arguments) -> int:
    """List all configs, or print the named ones."""
    if args.names:
        files = [find_config(name) for name in args.names]
        print("\n".join(file.read_text(encoding="utf-8") for file in files), end="")
        return 0
    found = shipped_configs()
    indent = max(map(len, found)) + 2
    for name, file in found.items():
        print(f"{name:<{indent}}{about(file)}")
    return 0
