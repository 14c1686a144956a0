"""`trm convert`: weights of the published TRM and of nanoGPT, to this package's format and back."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from canvas.problems import MOST_CELLS
from trm.checkpoints import SUFFIX, is_weights
from trm.commands.arguments import Arguments
from trm.commands.parser import Parser, whole
from trm.evaluation.grid_format import AXES
from trm.io.files import check_place, write_new
from trm.runtime.limits import MOST_STEPS

FORMATS = {
    "trm": "a file of the published TRM's training (SamsungSAILMontreal/TinyRecursiveModels)",
    "nanogpt": "a ckpt.pt of nanoGPT, or of its canvas variants",
    "safetensors": "weights that every command accepts as a checkpoint",
}
EXAMPLES = """\
examples:
  trm convert multiplication-trm-seed0 step_3000 --to trm
  trm convert runs/gpt ckpt.pt --to nanogpt
  trm convert ckpt.pt note.safetensors --to safetensors --layout running_sum \\
      --digits-a 1..5 --digits-b 1..5 --symbols '0123456789*_#^$'
  trm convert step_3000 theirs.safetensors --to safetensors --height 20 --width 20 \\
      --layout standard --digits-a 1..5 --digits-b 1..5
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    about = "file of the published TRM or of nanoGPT; or a checkpoint, a run's folder, or a name"
    add("source", metavar="IN", help=f"{about} listed by `trm models`")
    add("output", metavar="OUT", help="file to write; one with other content is never replaced")
    about = "; ".join(f"{name}: {what}" for name, what in FORMATS.items())
    add("--to", required=True, choices=FORMATS, help=about)
    parser.add_import()
    group = parser.add_argument_group(
        "settings of others' weights", "what a file of the published TRM or of nanoGPT lacks"
    )
    add = group.add_argument
    parser.add_canvas(group=group)
    add("--num-heads", type=whole(1), help="attention heads (default: the file's; of the TRM 8)")
    about = "rope_1d (default) or none of the TRM; none, sinusoidal or rope_2d of a GPT"
    add("--position", help=f"{about}. Learned ones are found in the file")
    for cycles, usual in (("--H-cycles", 3), ("--L-cycles", 6)):
        add(cycles, type=whole(1, MOST_STEPS), help=f"of the TRM (default: {usual})")
    about = "tokens of the TRM's puzzle embedding (default: from the file if it shows, else 16)"
    add("--prefix-length", type=whole(0, MOST_CELLS), help=about)
    group = parser.add_argument_group(
        "problems of others' weights", "what `--to safetensors` needs to solve problems with them"
    )
    parser.add_task(group, "it")
    add = group.add_argument
    about = "most supervision steps of a row in solving, of the TRM (default: 16)"
    add("--steps", type=whole(1, MOST_STEPS), help=about)
    about = "the symbol of each of the model's token ids (default: those of this package)"
    add("--symbols", metavar="TEXT", help=about)


def run(args: Arguments) -> int:
    """Convert one file, and print the content of the new one."""
    output, ours = Path(args.output), args.to == "safetensors"
    if (output.suffix == SUFFIX) != ours:
        ending = f"has to end in {SUFFIX}" if ours else f"is no {SUFFIX} in this format"
        raise ValueError(f"--to {args.to}: OUT {ending}, got {output}")
    check_place(output, "OUT")
    if not ours:
        why = "only --to safetensors needs to know the problems"
        args.refuse(why, "layout", "task", *AXES, "steps", "symbols", "base")

    import torch

    from trm.extras.interop.nanogpt import GPT_POSITIONS, nanogpt_checkpoint
    from trm.extras.interop.reference_trm import reference_settings, reference_state
    from trm.extras.interop.weight_files import TRM, kind_of, read_file
    from trm.models.recursive import TinyRecursiveModel
    from trm.solving.families import NANOGPT_WEIGHTS, TRM_WEIGHTS, family_of

    source, content, kind, cut = Path(args.source), None, None, False
    if source.is_file() and not is_weights(source):
        try:
            content = read_file(source)
            kind = kind_of(content)
        except ValueError:
            kind = None  # reading it as a checkpoint raises an error about it
    if kind is not None and content is not None:
        model = _theirs(args, content, kind)
        packed = _packed(args, model, kind) if ours else b""
    else:
        from trm.checkpoints.content import load_checkpoint, pack
        from trm.commands.export import shown

        args.find_checkpoints(source)
        checkpoint = load_checkpoint(source)  # raises for a missing or damaged file
        what = f"{source} is no file of the published TRM or of nanoGPT, and contains its settings"
        settings = ("height", "width", "num_heads", "position", "H_cycles", "L_cycles")
        others = ("prefix_length", "layout", "task", "steps", *AXES, "symbols", "base")
        args.refuse(what, *settings, *others)
        one = shown("", source)
        model = one.solver.predictor.model
        canvas = getattr(one.solver, "canvas", None)  # of puzzles it is of one size
        cut = canvas is not None and canvas.height is None
        packed = pack(checkpoint, one.card, one.weights)
    notes = [f"{type(model).__name__}, {model.num_parameters:,} parameters"]
    if not ours:
        family_of(model).require(TRM_WEIGHTS if args.to == TRM else NANOGPT_WEIGHTS)
        state: dict[str, Any]
        if args.to == TRM:
            if not isinstance(model, TinyRecursiveModel):
                raise ValueError(
                    f"the published TRM has no {type(model).__name__}: convert a TinyRecursiveModel"
                )
            state = reference_state(model)
            names = reference_settings(model)
            notes += [f"arch.{name}={value}" for name, value in names.items()]
        else:
            state = nanogpt_checkpoint(model)
            if variant := GPT_POSITIONS[model.config.position]:
                notes.append(f"its GPTConfig also needs pe=PositionEmbedding.{variant}")
        stream = io.BytesIO()
        torch.save(state, stream)
        packed = stream.getvalue()
    write_new(output, packed, str(output))
    args.info.print(f"{output}: {notes[0]}; {len(packed):,} bytes")
    if notes[1:]:
        args.info.print(" ".join(notes[1:]))
    if not ours and cut:
        size = f"{model.config.height} x {model.config.width}"
        args.info.print(
            f"its canvases were cut to the problems; those of the other code are all {size}, and "
            "there it is less accurate"
        )
    return 0


def _theirs(args: Arguments, content: Mapping[str, Any], kind: str) -> Any:
    """Return the model of others' weights."""
    from trm.extras.interop.nanogpt import load_nanogpt
    from trm.extras.interop.reference_trm import load_reference_trm
    from trm.extras.interop.weight_files import TRM

    given = {name: getattr(args, name) for name in ("height", "width", "num_heads", "position")}
    cycles = {name: getattr(args, name) for name in ("H_cycles", "L_cycles", "prefix_length")}
    try:
        if (args.height or 1) * (args.width or 1) > MOST_CELLS:
            raise ValueError(f"a canvas has at most {MOST_CELLS:,} cells: name a smaller one")
        if kind != TRM:
            args.refuse("nanoGPT has no cycles, supervision steps or prefixes", *cycles, "steps")
            gpt = load_nanogpt(content, **given)
            if gpt.config.height * gpt.config.width > MOST_CELLS:
                raise ValueError(f"its canvas has more than {MOST_CELLS:,} cells")
            return gpt
        if args.height is None or args.width is None:
            raise ValueError(
                "weights of the published TRM do not contain the canvas: name its height and "
                "width, by --height and --width"
            )
        found = {name: value for name, value in (given | cycles).items() if value is not None}
        return load_reference_trm(content, **found)
    except ValueError as error:
        raise ValueError(f"{args.source}: {error}") from None


def _packed(args: Arguments, model: Any, kind: str) -> bytes:
    """Return others' weights as a file of this package, with the problems of the arguments."""
    from canvas import symbols
    from canvas.canvas_size import Canvas
    from canvas.check import check_layout
    from trm.checkpoints.content import new_content, pack
    from trm.extras.interop.token_ids import renumbered
    from trm.extras.interop.weight_files import TRM

    task = args.described_task("--to safetensors")
    canvas = Canvas(model.config.height, model.config.width)
    canvas.check(task)
    check_layout(task)
    sign = task.canvas_layout.sign
    needed = [*symbols.ids_of(task.base).tolist(), symbols.BLANK, *([] if sign is None else [sign])]
    needed += [symbols.MASK] if kind == TRM else [symbols.ROW_END, symbols.START, symbols.END]
    if args.symbols is not None:
        absent = symbols.PAD if kind == TRM else symbols.START
        model = renumbered(model, args.symbols, needed, absent)
    elif model.config.vocab_size <= max(needed):
        raise ValueError(
            f"{args.source} has {model.config.vocab_size} token ids, and the problems need "
            f"{max(needed) + 1} in this package: name the symbol of each id by --symbols, "
            "0123456789*_#^$ for the canvases of the note"
        )
    settings = {"solve_steps": args.steps} if args.steps else {}
    content = new_content(model, task, canvas, **settings)
    return pack(content, {"converted_from": FORMATS[kind]}, model.state_dict())
