"""The names in the scripts of the web page: each is declared around it, or is the browser's.

Node need not be installed: the scripts are read as tokens. A name counts as declared within the
braces around its declaration, so this finds a name that a renaming has left behind.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import trm.extras.page

FOLDER = Path(trm.extras.page.__path__[0])
NAMES = ("model.js", "cell.js", "healing.js", "grid.js", "page.js")
SCRIPTS = {name: (FOLDER / name).read_text() for name in NAMES}
KEYWORDS = """
async await break case catch class const constructor continue else extends false finally for
function get if in let new null of return set switch this throw true try typeof undefined while
"""
BROWSER = """
Array BigInt Boolean Error Float32Array Float64Array Infinity Int32Array JSON Map Math Number Object
Option Promise Set String URLSearchParams Uint8Array atob decodeURIComponent document history
location matchMedia module onhashchange setInterval setTimeout
"""
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>\?\.|\.\.\.|=>|[^\w\s])"""
)
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+/[a-z]*")


def tokens(script: str) -> list[str]:
    """Names and signs of a script; text is left out, and templates are only their expressions."""
    found, at = [], 0
    while at < len(script):
        if script[at] == "`":
            at, inside = template(script, at + 1)
            found += ["(", *inside, ")"]
            continue
        value = found[-1] if found else "("
        regex = script[at] == "/" and script[at + 1] not in "/*"
        if regex and re.fullmatch(r"=>|[=(,:!&|?{;]", value):
            at = REGEX.match(script, at).end()
            found.append('""')
            continue
        one = TOKEN.match(script, at)
        at = one.end()
        if one.lastgroup != "space":
            found.append('""' if one.lastgroup in ("string", "number") else one[0])
    return found


def template(script: str, at: int) -> tuple[int, list[str]]:
    """The end of a template, and the tokens of its expressions."""
    found: list[str] = []
    while script[at] != "`":
        if script.startswith("${", at):
            depth, end = 1, at + 2
            while depth:
                if script[end] == "`":
                    end, _ = template(script, end + 1)
                    continue
                depth += {"{": 1, "}": -1}.get(script[end], 0)
                end += 1
            found += [",", *tokens(script[at + 2 : end - 1])]
            at = end
        else:
            at += 2 if script[at] == "\\" else 1
    return at + 1, found


def is_name(token: str) -> bool:
    return re.match(r"[A-Za-z_$]", token) is not None and token not in KEYWORDS.split()


def closing(all_tokens: list[str], at: int) -> int:
    """The index of the bracket that closes the one at an index."""
    depth = 0
    for end in range(at, len(all_tokens)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(all_tokens[end], 0)
        if not depth:
            return end
    raise AssertionError("a bracket is open")


def names_in(all_tokens: list[str], at: int, end: int) -> Iterator[int]:
    """Yield the places of names that a pattern declares: b, c, e in ``{a: b, c = d, ...e}``."""
    while at < end:
        if all_tokens[at] == "=":  # a default value
            at += 1
            while at < end and all_tokens[at] != ",":
                at = 1 + (closing(all_tokens, at) if all_tokens[at] in "([{" else at)
            continue
        if is_name(all_tokens[at]) and all_tokens[at + 1] != ":":
            yield at
        at += 1


def blocks(all_tokens: list[str]) -> list[tuple[int, ...]]:
    """For each token, where the braces around it open, from the outside."""
    found, opened = [], []
    for i, token in enumerate(all_tokens):
        if token == "}":
            opened.pop()
        found.append(tuple(opened))
        if token == "{":
            opened.append(i)
    return found


def declarations(all_tokens: list[str]) -> Iterator[tuple[int, int]]:
    """Return the places of declared names, with the brace of their block; −1: everywhere."""
    around = blocks(all_tokens)
    opened, pairs = [], {}
    for i, token in enumerate(all_tokens):
        if token == "(":
            opened.append(i)
        elif token == ")":
            pairs[i] = opened.pop()

    def here(i: int) -> int:
        return around[i][-1] if around[i] else -1

    def body(i: int) -> int:  # of a function; without braces it is an expression
        return i if all_tokens[i] == "{" else here(i)

    for i, token in enumerate(all_tokens[:-1]):
        after = all_tokens[i + 1]
        if token in ("const", "let"):
            at = i + 1
            while True:
                end = closing(all_tokens, at) + 1 if all_tokens[at] in "[{" else at + 1
                yield from ((place, here(i)) for place in names_in(all_tokens, at, end))
                while all_tokens[end] not in (",", ";", "of", "in"):
                    end = 1 + (closing(all_tokens, end) if all_tokens[end] in "([{" else end)
                if all_tokens[end] != ",":
                    break
                at = end + 1
        elif token in ("function", "class"):
            yield i + 1, here(i)
        elif after == "=>" and is_name(token):
            yield i, body(i + 2)
        elif token == ")" and after in ("=>", "{"):
            first = pairs[i]
            before = all_tokens[first - 1]  # `if (…) {` declares nothing
            if after == "=>" or is_name(before) or before in ("catch", "constructor"):
                of = body(i + 1 if after == "{" else i + 2)
                yield from ((place, of) for place in names_in(all_tokens, first + 1, i))
            if after == "{" and is_name(before) and all_tokens[first - 2] in ("}", "{"):
                yield first - 1, here(first)  # a method


def used(all_tokens: list[str]) -> Iterator[int]:
    """Return the places of names that are no properties."""
    for i, token in enumerate(all_tokens[1:-1], start=1):
        before, after = all_tokens[i - 1], all_tokens[i + 1]
        key = after == ":" and before in ("{", ",")
        if is_name(token) and before not in (".", "?.") and not key:
            yield i


def unknown(scripts: dict[str, str]) -> set[str]:
    """The names that stand outside the blocks that declare them, and that no browser has."""
    everywhere, read, left = (
        {*BROWSER.split()},
        [tokens(script) for script in scripts.values()],
        set(),
    )
    found = [[*declarations(one)] for one in read]
    for one, places in zip(read, found, strict=True):
        everywhere |= {one[place] for place, scope in places if scope < 0}
    for one, places in zip(read, found, strict=True):
        around, scopes = blocks(one), dict[str, set[int]]()
        for place, scope in places:
            scopes.setdefault(one[place], set()).add(scope)
        for i in {*used(one)} - {place for place, _ in places}:
            if one[i] not in everywhere and not scopes.get(one[i], set()) & {*around[i]}:
                left.add(one[i])
    return left


def test_every_name_is_declared():
    assert unknown(SCRIPTS) == set()
    for script in SCRIPTS.values():
        assert len([*used(tokens(script))]) > 80


@pytest.mark.parametrize(
    ("script", "old", "new"),
    [
        ("model.js", "decided.outputs", "decision.outputs"),
        ("model.js", "function softmax(", "function softMax("),
        ("model.js", "const { tokens, asked } = drawPage", "const { tokens, masked } = drawPage"),
        ("cell.js", "const percent =", "const perCent ="),
        ("cell.js", "${percent(cell.sure)}", "${share(cell.sure)}"),
        ("page.js", "order.find((place) =>", "order.find((one) =>"),
        ("model.js", "const hurt = this.disturbed", "const changed = this.disturbed"),
        ("healing.js", "longestChain(canvas)", "longest(canvas)"),
        ("page.js", "const free = kept", "const open = kept"),
        ("grid.js", "async function measure", "async function start"),
        ("grid.js", "fill(cells[i][j], size, right", "fill(cells[i][j], length, right"),
    ],
)
def test_a_name_that_a_renaming_left_behind_is_found(script, old, new):
    assert old in SCRIPTS[script]
    assert len(unknown(SCRIPTS | {script: SCRIPTS[script].replace(old, new, 1)})) == 1


def test_the_page_has_these_scripts_and_no_others():
    assert re.findall(r'<script src="(.+)">', (FOLDER / "page.html").read_text()) == [*SCRIPTS]
    names = {*re.findall(r'byId\("(\w+)"\)', "".join(SCRIPTS.values()))}
    assert names <= {*re.findall(r'id="(\w+)"', (FOLDER / "page.html").read_text())}
