"""Model cards: what a model was given and what it learned, what is proved of it, and its tests.

`model_card` writes one from a checkpoint or a file of weights. All facts are those of the file, and
of the note of `trm prove` beside it.

Example of its paragraphs: ``**Proved.** Correct at every length: …``.
"""

from pathlib import Path
from typing import Any

from canvas.symbols import Alphabet
from trm.cells.model import CellModel
from trm.cells.proof.notes import COMPUTES, LAWFUL, PROVED, REFUTED, noted_proof
from trm.checkpoints import CHECKPOINT_KEY, COST_KEY, DATA_KEY
from trm.checkpoints.content import auxiliary_weights, load_checkpoint
from trm.checkpoints.names import PUZZLES, named_weights
from trm.checkpoints.puzzles import load_any
from trm.evaluation.grid import pooled
from trm.evaluation.statistics import Share
from trm.io.markdown import known, safe, table
from trm.models.gpt import GPT
from trm.solving.puzzles import PuzzleSolver
from trm.solving.solver import Solver

LIBRARY = "library_name: canvas-trm"  # in the card's metadata
AUXILIARY_LABELS = "auxiliary"  # an entry of the description in a file of weights

_NEIGHBOURHOODS = {
    "local": "",
    "local_lines": " and to the eight lines through it",
    "local_farthest": " and to the farthest written cell in each of eight directions",
}

_BY_CELLS = (
    "**Confidence.** That in a row is the lesser of the halting head's probability and the "
    "calibrated one of the row's least certain cell (`model.confidence: cells`)."
)

_NOT_PROVED = "Nothing: the states of such a model are continuous, so its claims are tested."
_NO_FIGURES = (
    "The file has no figures: `trm evaluate` measures them, and `trm inspect --export` with "
    "`--figures` writes them into a file."
)
_SOLVE_PUZZLES = """\
from trm import load_puzzle_solver
from trm.io.puzzle_files import read_inputs

solver = load_puzzle_solver("{}")
puzzles = read_inputs("puzzles.txt", solver.format)  # a puzzle in each line
for canvas in solver.solve(puzzles).canvases:
    print(solver.format.to_text(canvas))"""

# Entries of a proof that a file of weights repeats.
_PROOF = (
    *("verdict", "arithmetic", "weights_sha256", "digest", "op_inputs", "op_inputs_sha256"),
    *("smallest_margin", "margin_left_by_rounding"),
)
_PROOF_IF_NOTED = ("decisions_sha256", "agreed_canvases", "tested", "checked_laws")


def description(
    path: str | Path, content: dict[str, Any], solver: Solver | PuzzleSolver
) -> dict[str, Any]:
    """Return the entry ``card`` of a file of weights, with the noted proof of this very model.

    Args:
        path: of the checkpoint.
        content: of the checkpoint, see `trm.checkpoints.content.load_checkpoint`.
        solver: loaded from it.
    """
    found = dict(content.get("card") or {})
    if isinstance(solver, PuzzleSolver):
        return found
    found.pop("proof", None)  # replaced only if the noted proof belongs to this model
    proof = noted_proof(path, content, solver.predictor.model, solver.task)
    if "verdict" in proof:
        found = {"proof": {name: proof.get(name) for name in _PROOF}} | found
        found["proof"] |= {name: proof[name] for name in _PROOF_IF_NOTED if name in proof}
    if labels := list(auxiliary_weights(content)):
        found[AUXILIARY_LABELS] = labels
    return found


def model_card(checkpoint: str | Path, name: str | None = None) -> str:
    """Describe a model as Markdown.

    Args:
        checkpoint: a checkpoint, the folder of a run, or a name that `trm models` lists.
        name: under which the card's example loads the model; None: the checkpoint's.

    Raises:
        FileNotFoundError, ValueError: see `trm.checkpoints.loading.load_solver`.
    """
    solver, content = load_any(checkpoint, device="cpu"), load_checkpoint(checkpoint)
    card = description(checkpoint, content, solver)
    name = str(checkpoint) if name is None else name
    if isinstance(solver, PuzzleSolver):
        return _card_of_puzzles(name, solver, content, card)
    task, model = solver.task, solver.predictor.model
    tags = [*(() if isinstance(task.base, Alphabet) else ("arithmetic",)), task.name, task.layout]
    parts = [
        _heading(name, *tags),
        f"{_network(model)} for {task.name} {task.digits_in_words}, layout `{task.layout}`, "
        f"trained on {solver.trained_on}.",
        *_given_and_learned(solver, card),
        *([] if isinstance(model, CellModel) else [f"**Views.** {_views(content[DATA_KEY])}"]),
        *([_BY_CELLS] if content[CHECKPOINT_KEY].get("confidence") == "cells" else []),
        f"**Proved.** {_proved(checkpoint, solver, content)}",
        f"**Tested.** {_tested(card)}",
        f"**Training.** {_training(content)}",
    ]
    loaded = "load_solver" if name in named_weights() else "Solver.from_pretrained"
    imports = f"from trm import {', '.join(sorted(('solve', loaded.partition('.')[0])))}"
    code = f'{imports}\n\nprint(solve("{task.example}", {loaded}("{name}")))'
    return "\n\n".join([*parts, _python(code)])


def _card_of_puzzles(
    name: str, solver: PuzzleSolver, content: dict[str, Any], card: dict[str, Any]
) -> str:
    """Return the card of a model that was trained on arrays of puzzles."""
    form, model, data = solver.format, solver.predictor.model, content[DATA_KEY]
    symbols = f"{form.vocab_size} symbols"
    symbols += f", {safe(form.characters)}" if form.characters else ""
    asked = f"the cells with {safe(form.unknown)}" if form.unknown else "all cells of a puzzle"
    design = "; ".join(["the size of the canvas, and its symbols", *_given_cells(model.config)])
    labels = f"The symbols of solutions, in {asked}"
    if share := data.get("revealed"):
        labels += f"; {100 * share:g} % of the samples had random cells of the solution as well"
        if own := data.get("revealed_own"):
            labels += f", in {100 * own:g} % of these as the model wrote them, also incorrectly"
    views = _views(data)
    equivalents = data.get("equivalents") or {}
    exchanged = [f"the symbols {safe(text)}"] if (text := equivalents.get("symbols")) else []
    exchanged += [f"{lines}s" for lines in ("band", "stack") if equivalents.get(lines)]
    if exchanged:
        views += f" Training exchanged {', '.join(exchanged)} at random."
    code = _SOLVE_PUZZLES.format(name)
    return "\n\n".join(
        [
            _heading(name, "puzzles"),
            f"{_network(model)} for puzzles of {form.height} x {form.width} cells and {symbols}; "
            f"{asked} are filled in at once.",
            f"**Given by design.** {_sentence(design)}",
            f"**Given as labels, in training alone.** {labels}.",
            "**Learned.** The rules of the puzzles, and when a solution is done.",
            f"**Views.** {views}",
            f"**Proved.** {_NOT_PROVED}",
            f"**Tested.** {_tested_on_puzzles(card)}",
            f"**Training.** {_training(content)}",
            _python(code),
        ]
    )


def _tested_on_puzzles(card: dict[str, Any]) -> str:
    """Return the figures of ``trm evaluate --data`` in the file as a table."""
    rows = [
        [
            *(safe(one["data"]), f"{one['views']:g}", one["vote"] or ""),
            f"the {surest} surest" if (surest := one.get("surest")) else "all",
            Share(one["exact"]["right"], one["exact"]["total"]).short,
            *(f"{one['exact']['total']:,}", f"{100 * one['cells']:.1f} %"),
            *(known(one[name], "{:.3f}") for name in ("calibration_error", "auroc")),
        ]
        for one in card.get(PUZZLES) or ()
    ]
    if not rows:
        return _NO_FIGURES
    heads = ["test split of", "views", "vote", "cells at a time", "exact", "of", "cells"]
    heads += ["calibration error", "AUROC"]
    return f"Exact solutions, with 95 % intervals:\n\n{table(heads, rows)}"


def _heading(name: str, *tags: str) -> str:
    return f"---\n{LIBRARY}\ntags: [{', '.join(tags)}]\n---\n\n# {safe(name)}"


def _network(model: Any) -> str:
    """Return the beginning of a sentence about a network."""
    kind = type(model).__name__
    article = "An" if kind[0] in "AEIOU" else "A"
    return f"{article} `{kind}` of {model.num_parameters:,} parameters"


def _python(code: str) -> str:
    return f"```python\n{code}\n```\n"


def _given_and_learned(solver: Solver, card: dict[str, Any]) -> list[str]:
    """Return the paragraphs about the design, the labels, and what is left to learn."""
    model = solver.predictor.model
    labels = ["the symbols of correct solutions"]
    if isinstance(model, CellModel):
        hints = [name for name in model.signals if name not in model.config.codes]
        several = len(model.encoding.ops) > 1
        design = f"the layout, {'the order of writing, ' if model.encoding.ordered else ''}"
        design += "the neighbours that a cell reads, the names of "
        design += f"their signals{', the ops of a cell and what each reads' if several else ''}"
        if hints:
            labels.append(f"in every cell the true classes of {_names(hints)}")
        if model.config.codes:
            labels.append(f"no labels for the latent codes {_names(model.config.codes)}")
        learned = f"the outputs of {'each op' if several else 'a cell'} for each of its inputs"
        if model.config.codes:
            learned += ", and what the codes stand for"
    elif isinstance(model, GPT):
        design = "the layout, and the order of tokens: rows from the top, each from its last digit"
        if pauses := model.config.pauses:
            design += f", with {pauses} pause tokens after the operands"
        learned = "the arithmetic, the carries, and where rows end"
    else:
        design = "the layout, and the order of rows"
        learned = "the arithmetic, the carries, where rows begin and end, and when a row is done"
    if not isinstance(model, CellModel):
        design += "".join(f"; {part}" for part in _given_cells(model.config))
    if auxiliary := card.get(AUXILIARY_LABELS):
        labels.append(f"auxiliary losses for {_names(auxiliary)}")
    return [
        f"**Given by design.** {_sentence(design)}",
        f"**Given as labels, in training alone.** {_sentence('; '.join(labels))}",
        f"**Learned.** {_sentence(learned)}",
    ]


def _given_cells(config: Any) -> list[str]:
    """Return what the settings of a transformer fix about places and attention."""
    radius = getattr(config, "radius", 0)
    found = [f"position encoding `{config.position}`"]
    if config.position == "relative_2d":
        found[0] += f", a bias per head for each offset of cells, exact up to {radius}"
    if getattr(config, "direction_bias", 0):
        found.append("at the start each head prefers one of eight directions")
    kind = getattr(config, "neighbourhood", "all")
    if kind != "all":
        other = _NEIGHBOURHOODS[kind]
        found.append(f"`{kind}`: a cell attends to a square of radius {radius}{other}")
    if getattr(config, "skip_blank", False):
        found.append("blank cells are no tokens (`skip_blank`)")
    if getattr(config, "crop", False):
        found.append("cells outside the box of all that is written are left out (`crop`)")
    return found


def _views(data: dict[str, Any]) -> str:
    """Return in which orientations and at which places a model was trained."""
    turned = [name for name in data.get("symmetries", ()) if name != "e"]
    negatives = {name: share for name, share in data.get("negatives", {}).items() if share}
    which = f"canvases in {len(turned) + 1} orientations" if turned else "upright canvases alone"
    place = ", shifted" if data.get("shifted") else ""
    if not negatives:
        return f"Trained on {which}{place}."
    shares = ", ".join(f"{100 * share:g} % `{name}`" for name, share in negatives.items())
    return (
        f"Cells were learned on upright canvases. The confidence alone was taught by negatives, "
        f"{shares} of all samples{place}: it is that of an upright canvas whose rows are correct."
    )


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _proved(checkpoint: str | Path, solver: Solver, content: dict[str, Any]) -> str:
    """Return what is proved of the model in its file, or noted beside it."""
    model = solver.predictor.model
    if not isinstance(model, CellModel):
        return _NOT_PROVED
    proof = noted_proof(checkpoint, content, model, solver.task)
    verdict = proof.get("verdict")
    if verdict == PROVED:
        arithmetic = proof.get("arithmetic") or "float32"
        rounding = ", in whatever order sums are rounded" if arithmetic == "float32" else ""
        # Integers are never rounded; "float32 as it is computed here" needs no more words.
        if arithmetic in ("float32", "float64") and not proof.get("margin_left_by_rounding"):
            rounding = ", as computed"
        return (
            f"Correct at every length: on all {proof['op_inputs']:,} inputs that its cells can "
            f"have, with a margin of at least {proof['smallest_margin']:.2f} between the correct "
            f"logit and the next, in {arithmetic}{rounding}."
        )
    if outdated := proof.get("outdated"):
        return f"Nothing: {outdated}."
    if verdict in (LAWFUL, COMPUTES):
        tested, agreed = proof.get("tested") or {}, proof.get("agreed_canvases")
        canvases = f"{agreed:,} canvases" if agreed else "canvases"
        digits = f" with numbers of up to {tested['digits']} digits" if "digits" in tested else ""
        rule = f"The rule itself was tested, on {canvases}{digits}."
        what = f"Nothing of its answers. It computes its rule in all {proof['op_inputs']:,} inputs "
        what += f"of its cells, in {proof.get('arithmetic')}. {rule}"
        if verdict == LAWFUL:
            names = _names((proof.get("checked_laws") or {}).get("names") or ())
            what += f" Its laws hold in each of them: {names}; that they imply the answer is the "
            what += "argument of the layout's author."
        return what
    if verdict == REFUTED:
        found = (proof.get("counterexample") or {}).get("problem")
        return f"Refuted: it gets {found} wrong." if found else "Refuted."
    if verdict:
        return "Open: neither a proof nor a counterexample was found."
    return f"Nothing yet: `trm prove --checkpoint {checkpoint}` decides."


def _tested(card: dict[str, Any]) -> str:
    """Return the figures of the file as a table."""
    cells = card.get("cells")
    if not cells:
        return _NO_FIGURES
    settings = card["settings"]
    asked = f"; {settings['asked']}" if settings.get("asked") else ""
    intro = (
        f"Up to {settings['problems']:,} problems of the {settings['split']} split in each row "
        f"(problem seed {settings['seed']}{asked}). Correct are whole solutions, on the model's "
        "own rows, with 95 % intervals:"
    )
    figures = ["solutions" if any(cell["solutions"] for cell in cells) else "answers"]
    rows = [
        [str(c["row"]), str(c["column"]), c["region"], *(pooled([c], f).short for f in figures)]
        for c in cells
    ]
    heads = [axis.replace("_", " ") for axis in settings["axes"]]
    return f"{intro}\n\n{table([*heads, 'region', 'correct'], rows)}"


def _training(content: dict[str, Any]) -> str:
    """Return steps, samples, time and seed of the run."""
    facts = [f"{content['global_step']:,} steps"] if content.get("global_step") else []
    if cost := content.get(COST_KEY):
        facts += [f"{cost['samples']:,} samples", f"{cost['seconds'] / 60:,.1f} minutes"]
    seed = content[DATA_KEY].get("seed")
    facts += [] if seed is None else [f"samples of seed {seed}"]
    if primed := content[DATA_KEY].get("primed"):
        share = f"{100 * primed['share']:g} % of the samples"
        facts.append(f"{share} from {primed['problems']} longer problems (priming)")
    if share := content[DATA_KEY].get("carry_practice"):
        facts.append(f"{100 * share:g} % of the samples chosen for narrow carries")
    if before := (cost or {}).get("before"):
        facts.append(
            f"after {before['steps']:,} steps, {before['samples']:,} samples and "
            f"{before['seconds'] / 60:,.1f} minutes of the weights that it began with"
        )
    return _sentence(", ".join(facts)) if facts else "The file has no figures of its run."
