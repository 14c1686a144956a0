"""README and docs are true: links, files, imports, figures of configs, commands, code."""

import importlib
import inspect
import os
import re
import runpy
import shlex
import warnings
from functools import cache
from pathlib import Path

import lightning as L
import pytest
import torch
import yaml

from trm.commands.cli import TRAINING, parser_of
from trm.io.config_files import find_config
from trm.solving.solution import COLUMNS
from trm.training.cli import train

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
LOG = ROOT / "docs/log"
PACKAGES = ("canvas", "augment", "trm")
# A run that is over at once.
SHORT = shlex.split(
    "--trainer.accelerator cpu --trainer.precision 32-true --trainer.max_epochs 1 "
    "--trainer.check_val_every_n_epoch 1 --trainer.log_every_n_steps 1 "
    "--data.batches_per_epoch 1 --data.batch_size 4 --data.validation_problems 2 "
    "--data.training_problems 0 --model.schedule.warmup_steps 0"
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def section(page: str, title: str) -> str:
    """The text after a heading, up to the next one of its level."""
    return (ROOT / page).read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def modules() -> set[Path]:
    return {path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


@cache
def anchors(page: Path) -> set[str]:
    """Anchors of a page: those that GitHub makes of headings, and those of its own."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}
    return made | set(re.findall(r'^<a id="([\w-]+)"></a>', page.read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md", *sorted(LOG.glob("*.md"))], ids=name
)
def test_links_lead_somewhere(page):
    text = page.read_text()
    links = re.findall(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)", text) + re.findall(
        r"^\[\w+\]: (\S+)$", text, re.MULTILINE
    )
    broken = []
    for link in links:
        if link.startswith(("http:", "https:")):
            continue
        if page.parent == LOG and "/configs/" in link:
            continue  # no entry is rewritten: its config may be in the git history alone
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if target.suffix == ".py" and anchor:
            continue  # a line: see below
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_links_to_lines_of_code_lead_to_these_lines():
    renewed = runpy.run_path(str(ROOT / "docs/lines.py"))["renewed"]
    assert [name(page) for page in PAGES if renewed(page) != page.read_text()] == []


def test_readme_and_generated_pages_are_complete():
    text = (ROOT / "README.md").read_text()
    assert [name(page) for page in PAGES[1:] if f"({name(page)}" not in text] == []
    log = runpy.run_path(str(LOG / "index.py"))
    assert [title for _, title, _ in log["entries"]() if len(title) > 100] == []
    assert (LOG / "README.md").read_text() == log["index"]()
    made = runpy.run_path(str(ROOT / "docs/gallery.py"))["gallery"]()
    assert (ROOT / "docs/gallery.md").read_text() == made
    options = runpy.run_path(str(ROOT / "docs/options.py"))["page"]()
    assert (ROOT / "docs/options.md").read_text() == options
    manuals = ("train", "solve", "look_inside")
    for page in (ROOT / f"docs/{name}.md" for name in ("architecture", *manuals)):
        files = re.findall(r"\b((?:canvas|augment|trm|configs)/[\w/]+\.\w+)", page.read_text())
        assert [file for file in files if not (ROOT / file).exists()] == []
    named = {words[0] for _, words in LINES}
    assert named >= set(TRAINING) | {"render", "solve", "evaluate", "report"}


@pytest.mark.parametrize("month", sorted(LOG.glob("2*.md")), ids=name)
def test_the_log_has_dated_entries_with_anchors_newest_first(month):
    text = month.read_text()
    listed = runpy.run_path(str(LOG / "index.py"))
    dates = [date for date, _, link in listed["entries"]() if link.startswith(month.name)]
    assert dates == sorted(dates, reverse=True)
    assert {date[:7] for date in dates} == {month.stem}
    assert len(dates) == len(re.findall(r"^## ", text, re.MULTILINE))
    assert len(dates) == len(set(re.findall(r'<a id="(.*?)">', text)))
    entries = re.split(r"^<a id=.*$", text, flags=re.MULTILINE)[1:]
    lengths = [sum(bool(line.strip()) for line in entry.splitlines()) for entry in entries]
    assert max(lengths) <= 25


def test_the_tree_of_files_lists_exactly_the_modules():
    (tree,) = re.findall(r"```text\n(.*?)```", section("docs/architecture.md", "Files"), re.DOTALL)
    folders: list[tuple[int, str]] = []
    shown = set()
    for indent, parts in re.findall(r"^( *)(\S+(?: \S+)*)", tree, re.MULTILINE):
        folders = [folder for folder in folders if folder[0] < len(indent)]
        for part in parts.split():
            path = ROOT.joinpath(*(folder for _, folder in folders), part)
            assert path.exists(), path
            shown.add(path)
            if part.endswith("/"):
                folders.append((len(indent), part))
    assert {m for m in modules() - shown if m.name != "__init__.py"} == set()


def test_every_key_of_a_record_is_documented():
    table = section("docs/solve.md", "Files and records")
    fields = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line[:80])}
    assert set(COLUMNS) - fields == set()


def command_lines(page: Path) -> list[list[str]]:
    """The words after `trm` of each command line in a page's indented blocks, comments left out."""
    lines = re.findall(r"^ {4}(?:srun |.*\| )?trm (.*)$", page.read_text(), re.MULTILINE)
    return [shlex.split(line.partition(" | ")[0], comments=True) for line in lines]


LINES = [(name(page), words) for page in PAGES for words in command_lines(page)]


@pytest.mark.parametrize(
    "words", [w for _, w in LINES if w[0] not in TRAINING and w[0][0] != "-"], ids=str
)
def test_a_command_line_can_be_read(words):
    parser_of(words[0]).parse_args(words[1:])


def training_keys() -> dict[str, dict[str, str]]:
    """The keys of all training commands by config, of which each key has one value."""
    found: dict[str, dict[str, str]] = {}
    for words in (words for _, words in LINES if words[0] in TRAINING):
        pairs = dict(zip(words[1::2], words[2::2], strict=True))
        config = pairs.pop("--config")
        if config in ("mine.yaml", "my.yaml"):
            continue  # a copy
        keys = {k: v for k, v in pairs.items() if k.startswith(("--model", "--data", "--seed"))}
        if any("mine." in value for value in keys.values()):
            keys = {}  # such lines are run below
        known = found.setdefault(config, {})
        assert all(known.get(key, value) == value for key, value in keys.items())
        known |= keys
    return found


@pytest.mark.parametrize(("config", "keys"), training_keys().items())
def test_training_commands_name_existing_configs_and_keys(config, keys, monkeypatch):
    file = find_config(config)  # complains if there is none
    if keys:
        monkeypatch.setattr("sys.argv", ["trm"])
        cpu = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.logger=false"]
        words = [f"{key}={value}" for key, value in keys.items()]
        with torch.device("meta"):  # weights have shapes without memory
            train([f"--config={file}", *words, *cpu], run=False)


def test_keys_in_the_tables_of_names_exist():
    own = {"model.network.class_path"}
    pages = {page: (ROOT / f"docs/{page}.md").read_text() for page in ("names", "options")}
    for part in pages["options"].split("\n### ")[1:]:
        prefix = part.partition(" · ")[0]
        own |= {prefix} | {f"{prefix}.{key}" for key in re.findall(r"^\| `(\w+)`", part, re.M)}
    found = re.findall(r"`(?:--)?((?:model|data|trainer|…)\.[\w.]+)", pages["names"])
    keys = {key.replace("…", "model.network.config") for key in found}
    lightning = {f"trainer.{key}" for key in inspect.signature(L.Trainer).parameters}
    assert {key for key in keys if ".".join(key.split(".")[:2]) not in lightning} - own == set()
    assert len(keys) > 50


SHAPES = r"torch.Size\(\[\d+, 2, 8, 28, 28\]\)\n" * 2
PRINTED = {
    "README.md": ["56088 "],
    "docs/solve.md": ["5535 ", "5535 "],
    "docs/look_inside.md": [SHAPES, r"\[2, 4, 7\]"],
}


@pytest.mark.parametrize(("page", "printed"), PRINTED.items())
def test_python_examples_run(page, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block, expected in zip(blocks(ROOT / page, "python"), printed, strict=True):
        exec(compile(block, page, "exec"), {})
        assert re.search(expected, capsys.readouterr().out)
    assert os.listdir(tmp_path) == []


def extending() -> list[list[str]]:
    return command_lines(ROOT / "docs/extending.md")


@pytest.mark.parametrize("words", [w for w in extending() if w[0] == "render"], ids=str)
def test_own_layouts_and_tasks_are_drawn(words, own_folder, command):
    ran = command(*words, folder=own_folder)
    assert ran.err == ""
    rows = ("6 0 4", "- · 8 7", "5 1 7") if "604-87" in words else ("× · 4 0 5 6", "4 9 8 8 8 8")
    assert [row for row in rows if row not in re.sub(" +", " ", ran.out)] == []


def test_the_laws_of_an_own_rule_hold(own_folder, monkeypatch):
    from canvas.cells.reachable import reachable_cell_inputs
    from trm.cells.proof.laws import Survey

    monkeypatch.syspath_prepend(own_folder)
    rule = importlib.import_module("mine").LawfulColumnRule(3)
    survey = Survey(rule)
    reachable_cell_inputs(rule, survey)
    laws = survey.laws()
    assert laws.hold
    assert sorted(laws.names) == ["sum_is_written", "the_sum"]
    assert laws.cell_inputs == 301


def test_own_classes_are_used_from_python(own_folder, monkeypatch, capsys):
    monkeypatch.chdir(own_folder)
    monkeypatch.syspath_prepend(str(own_folder))
    last = blocks(ROOT / "docs/extending.md", "python")[-1]
    exec(compile(last, "extending.md", "exec"), {})
    assert capsys.readouterr().out.split()[-1].isdigit()


def test_the_example_of_augmentation_moves_all_arrays(capsys):
    (block,) = (b for b in blocks(ROOT / "docs/extending.md", "python") if "A.Compose(" in b)
    exec(compile(block, "extending.md", "exec"), {})
    assert capsys.readouterr().out == "True 3\n"


@pytest.mark.usefixtures("undrawn")
def test_an_own_kind_of_error_is_counted_and_named_in_the_report(own_folder, command, checkpoint):
    words = ("--digits-a", 1, "--digits-b", 1, "--problems", 4, "--accelerator", "cpu")
    more = ("--import", "mine", "--checkpoint", checkpoint, "--output", "kinds")
    command("evaluate", *more, *words, folder=own_folder)
    report = (own_folder / "kinds/grid.md").read_text()
    assert "- *reversed*: the digits stand in the oppo" in report


def test_the_example_of_a_trainer_of_ones_own_trains_and_solves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = (b for b in blocks(ROOT / "docs/extending.md", "python") if "L.Trainer(" in b)
    block, shorter = re.subn("batch_size=32, batches_per_epoch=5", "2, 1", block)
    assert shorter == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's, of its defaults
        exec(compile(block, "extending.md", "exec"), {})
    solved, answer = capsys.readouterr().out.split()[-2:]
    assert 0 <= float(solved) <= 1
    assert answer.isdigit() or answer == "None"
    assert os.listdir(tmp_path) == ["mine.ckpt"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("which", ["totals", "diagonal", "subtraction", "my-model"])
def test_own_classes_are_trained_and_used(which, own_folder, command):
    """The lines of a section of extending.md, in their order; training is cut short."""
    (snippet,) = blocks(ROOT / "docs/extending.md", "yaml")
    config = yaml.safe_load((ROOT / "configs/trm/quick.yaml").read_text())
    config["model"]["init_args"] |= yaml.safe_load(snippet)
    (own_folder / "my.yaml").write_text(yaml.safe_dump(config))
    lines = [words for words in extending() if words[-1] == which or f"runs/{which}" in words]
    assert [words[0] for words in lines] == ["fit", "evaluate" if which == "diagonal" else "solve"]
    shorter = {"fit": SHORT, "evaluate": ("--digits-a", 1, "--digits-b", 1, "--problems", 2)}
    for words in lines:
        command(*words, *shorter.get(words[0], ()), folder=own_folder)
    assert "--import" in lines[-1]
