"""From a program to weights: a layout's rule as the weights of a cell model, without training.

    python examples/program_to_weights.py --layout column --base 2 --output compiled.safetensors
    trm prove --checkpoint compiled.safetensors
    trm solve --checkpoint compiled.safetensors 1011+110

Tracr (Lindner et al. 2023, arXiv 2301.05062) compiles RASP programs to transformers. Here a program
is the rule of a cell, and what a cell can read is finite, so that its table is the program: each of
its op inputs becomes one hidden unit of the SwiGLU.

- Each symbol, class of a message and op is a channel of its own, and so is a constant.
- The gate of a unit is positive for its own op input alone: as many channels as it reads, and none
  of the others.
- A unit adds the classes that the rule decides for its op input, to channels that the head reads.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from canvas.addition import Addition
from canvas.cells.reachable import reachable_op_inputs
from canvas.multiplication import Multiplication
from canvas.task import Task
from trm import save_model
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel

SHARP = 40.0  # steepness of the gates
NEVER = 100.0  # against channels that an op input does not have
SURE = 20.0  # logits of decided classes, and of the halting head


@torch.no_grad()
def compiled(task: Task) -> CellModel:
    """Return a model that decides as the task's rule in all op inputs that can occur.

    Raises:
        ValueError: two op inputs read the same channels.
    """
    rule = task.local_rule()
    ids = reachable_op_inputs(rule)
    settings = rule_settings(rule)
    signals = sum(rule.signals.values())
    presence = 2 * any("" in names for of in rule.encoding.inputs for names in of)
    of_ops = len(settings.get("ops", ()))
    parts = (1, settings["vocab_size"], signals + presence, of_ops)
    read = sum(parts)  # channels of a constant, symbols, messages and ops
    outputs = settings["vocab_size"] + signals
    sizes = {"hidden_size": read + outputs, "intermediate_size": len(ids)}
    model = CellModel(CellConfig(num_heads=0, **sizes, **settings))
    for tensor in (*model.parameters(), model.H_init, model.L_init):
        tensor.zero_()

    # Embeddings: a channel each. A constant is in all symbols, and in ops, which may read none.
    constant, symbols, messages, ops = torch.eye(read + outputs)[:read].split(parts)
    model.embed_tokens.weight += (symbols + (0 if of_ops else constant)) / model.scale
    model.embed_messages.weight += messages / model.message_scale
    if model.embed_ops is not None:
        model.embed_ops.weight += (ops + constant) / model.scale

    # Gates. The model's own code says which channels an op input reads.
    inputs = model.reader.decode(torch.from_numpy(ids))
    tables = [table[inputs.places] for table in model.message_tables()]
    total, _ = model.around(tables, inputs.present).keys_values[0]
    token = (model.token_weight * model.scale)[inputs.token]
    if model.embed_ops is not None:
        token = token * inputs.reads_token + (model.embed_ops.weight * model.scale)[inputs.op]
    channels = (token + total)[:, :read] > 0.5  # bool [units, read]
    if len(channels.unique(dim=0)) < len(ids):
        raise ValueError("two op inputs read the same channels: a signal goes in two directions")
    mlp = model.layers[0].mlp
    gate, up = mlp.gate_up.weight.chunk(2)  # [units, channels] each
    gate[:, :read] = torch.where(channels, SHARP, -SHARP * NEVER)
    gate[:, 0] = -SHARP * (channels[:, 1:].sum(dim=1) - 0.5)
    up[:, 0] = 1.0

    # Outputs: the classes that the rule decides. A symbol that is given is not decided. They are
    # about as large as what is read, which the second update reads again.
    size = 2 / (SHARP * (model.config.hidden_size / 3) ** 0.5)
    decided = torch.from_numpy(rule.decide(ids))  # int64 [units, 1 + signals]
    starts = np.cumsum([0, *model.outputs.values()])[:-1]
    for column, start in enumerate(starts.tolist()):
        units = torch.nonzero(decided[:, column] >= 0)[:, 0]
        mlp.down.weight[read + start + decided[units, column], units] = size
    model.lm_head.weight[:, read:] = SURE * torch.eye(outputs)
    model.halt_head.bias.fill_(SURE)
    return model.eval()


def main() -> None:
    """Compile the rule of a layout, and print the size of the model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--layout", default="column", help="of sums: column; of products: standard, lattice, ...")
    add("--base", type=int, default=2)
    add("--output", type=Path, default=Path("compiled.safetensors"))
    args = parser.parse_args()
    kind = Addition if args.layout.startswith("column") else Multiplication
    task = kind(args.layout, base=args.base)
    model = compiled(task)
    save_model(args.output, model, task)
    units = model.config.intermediate_size
    count = sum(part.numel() for part in model.parameters())
    print(f"{units:,} op inputs, a hidden unit each: {count:,} parameters in {args.output}")


if __name__ == "__main__":
    main()
