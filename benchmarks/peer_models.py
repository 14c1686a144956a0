"""The models of peers, from checkouts of their code, behind the calls that benchmarks make.

Nothing of theirs is copied: they are imported from where they lie, and fed batches of this package.
"""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from canvas.symbols import VOCAB_SIZE
from trm.solving.rollout import Look, Prediction, Predictor

IGNORED = -100  # label of a cell that does not count, in both peers


@contextmanager
def imported_from(folder: Path, *packages: str) -> Iterator[None]:
    """Let packages of these names be found in a checkout, and forget them afterwards."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))
        for name in [name for name in sys.modules if name.split(".")[0] in packages]:
            del sys.modules[name]


def revision(folder: Path) -> str:
    """The commit of a checkout."""
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


class Theirs:
    """A recursive model that takes cells in a row, and has its own carry and loss.

    Args:
        model: with ``initial_carry(batch)`` and ``model(carry=, batch=)``.
        loss: of a carry and a batch: the next carry and the loss of a training step.
        names: of the inputs and of the labels in a batch.
    """

    def __init__(self, model: Any, loss: Callable[..., Any], names: tuple[str, str]) -> None:
        self.model, self._loss, self.names = model, loss, names
        self.carry: Any = None

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """That of a training step: one supervision step."""
        theirs = self.batch(batch)
        if self.carry is None:
            self.carry = self.model.initial_carry(theirs)
        self.carry, loss = self._loss(self.carry, theirs)
        return loss / len(batch["inputs"])

    def infer(self, batch: dict[str, Tensor]) -> None:
        """A supervision step of inference, and what it says."""
        theirs = self.batch(batch)
        self.model(carry=self.model.initial_carry(theirs), batch=theirs)

    def batch(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the model takes, of a batch of row steps."""
        labels = batch["labels"].long().masked_fill(~batch["answer"], IGNORED)
        size = len(labels)
        return {
            self.names[0]: batch["inputs"].int().view(size, -1),
            self.names[1]: labels.view(size, -1),
            "puzzle_identifiers": torch.zeros(size, dtype=torch.int32, device=labels.device),
        }


class TheirPredictor(Predictor):
    """How a peer's model fills in rows: supervision steps to the last one, as in its evaluation.

    Args:
        theirs: the model.
        size: the height and the width of the one canvas that it knows.
    """

    def __init__(self, theirs: Theirs, size: tuple[int, int]) -> None:
        self.theirs, self.model, self.size = theirs, theirs.model, size

    def accepts(self, height: int, width: int) -> bool:
        """Whether it is the canvas of training."""
        return (height, width) == self.size

    def look(self, inputs: np.ndarray, steps: int | None = None) -> Look:
        """Not measured."""
        raise NotImplementedError

    @torch.inference_mode()
    def __call__(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        """See `Predictor`."""
        self.model.eval()
        cells = torch.from_numpy(inputs).long()
        nothing = torch.zeros_like(cells, dtype=torch.bool)
        batch = self.theirs.batch({"inputs": cells, "labels": cells, "answer": nothing})
        carry = self.model.initial_carry(batch)
        halted, steps = False, 0
        while not halted:
            carry, said = self.model(carry=carry, batch=batch)
            halted, steps = bool(carry.halted.all()), steps + 1
        written = said["logits"].argmax(dim=-1).view_as(cells).to(torch.uint8)
        sure = said["q_halt_logits"].float().view(-1).sigmoid().numpy()
        return Prediction(written.numpy(), sure, np.full(len(inputs), steps))


def reference(
    folder: Path, settings: dict[str, Any], batch: int, cells: int, dtype: str = "float32"
) -> Theirs:
    """The published TRM of the config's shape."""
    network, depth = settings["network"]["init_args"]["config"], settings["depth"]
    torch.manual_seed(0)
    with imported_from(folder, "models"):
        code: Any = importlib.import_module("models.recursive_reasoning.trm")
        losses: Any = importlib.import_module("models.losses")
        model = code.TinyRecursiveReasoningModel_ACTV1(
            {
                "batch_size": batch,
                "seq_len": cells,
                "puzzle_emb_ndim": network["prefix_size"],
                "puzzle_emb_len": network["prefix_length"],
                "num_puzzle_identifiers": 1,
                "vocab_size": VOCAB_SIZE,
                "H_cycles": network["H_cycles"],
                "L_cycles": network["L_cycles"],
                "H_layers": 0,
                "L_layers": network["num_layers"],
                "hidden_size": network["hidden_size"],
                "expansion": network["expansion"],
                "num_heads": network["num_heads"],
                "pos_encodings": "rope",
                "halt_max_steps": depth["halt_max_steps"],
                "halt_exploration_prob": depth["exploration"],
                "forward_dtype": dtype,
            }
        )
        head = losses.ACTLossHead(model, "stablemax_cross_entropy")

    def loss(carry: Any, batch: dict[str, Tensor]) -> tuple[Any, Tensor]:
        return head(return_keys=(), carry=carry, batch=batch)[:2]

    return Theirs(model, loss, ("inputs", "labels"))


def nano_trm(
    folder: Path, settings: dict[str, Any], batch: int, cells: int, dtype: str = "float32"
) -> Theirs:
    """nano-trm's model of the config's shape."""
    network, depth = settings["network"]["init_args"]["config"], settings["depth"]
    torch.manual_seed(0)
    with imported_from(folder, "src"):
        code: Any = importlib.import_module("src.nn.models.trm")
        model = code.TRMModule(
            hidden_size=network["hidden_size"],
            num_layers=network["num_layers"],
            num_heads=network["num_heads"],
            H_cycles=network["H_cycles"],
            L_cycles=network["L_cycles"],
            N_supervision=depth["halt_max_steps"],
            N_supervision_val=depth["halt_max_steps"],
            ffn_expansion=network["expansion"],
            halt_exploration_prob=depth["exploration"],
            puzzle_emb_dim=network["prefix_size"],
            puzzle_emb_len=network["prefix_length"],
            vocab_size=VOCAB_SIZE,
            num_puzzles=1,
            batch_size=batch,
            seq_len=cells,
            forward_dtype=getattr(torch, dtype),
        )

    def loss(carry: Any, batch: dict[str, Tensor]) -> tuple[Any, Tensor]:
        return model.compute_loss_and_metrics(carry, batch)[:2]

    return Theirs(model, loss, ("input", "output"))


class NanoGPT:
    """nanoGPT's model."""

    def __init__(self, folder: Path, side: int) -> None:
        torch.manual_seed(0)
        with imported_from(folder, "model"):
            code: Any = importlib.import_module("model")
        self.model = code.GPT(
            code.GPTConfig(
                block_size=1 + side * (side + 1),
                vocab_size=VOCAB_SIZE,
                n_layer=6,
                n_head=6,
                n_embd=384,
                dropout=0.0,
                bias=False,
            )
        )

    def loss(self, ids: Tensor) -> Tensor:
        """Cross entropy of the next token."""
        loss: Tensor = self.model(ids[:, :-1], ids[:, 1:].contiguous())[1]
        return loss

    def write(self, ids: Tensor, tokens: int) -> None:
        """Go on greedily for so many tokens."""
        self.model.generate(ids, tokens, top_k=1)
