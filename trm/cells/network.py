"""The network of one cell: from embeddings to logits.

It is the model of Jolicoeur-Martineau 2025 (`trm.models.recursive`). In each of H_cycles cycles z_L
is updated L_cycles times from z_L + z_H + input, then z_H once from z_H + z_L. Only the last cycle
carries a gradient. In every update the cell attends to its neighbours' messages. These do not
change, so more cycles read no more of the canvas. The outputs are computed from the last z_H. Its
inputs are in `trm.cells.op_inputs`.
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.cells.encoding import OpEncoding
from canvas.cells.spec import NEIGHBOURS, SYMBOL, Op
from canvas.task import Task
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.neighbour_attention import AddedMessages, NeighbourAttention, NeighbourKV
from trm.cells.op_inputs import Indexed, OpInputs, OpReader
from trm.cells.precision import computes_float32
from trm.cells.shared_classes import SharedClasses
from trm.models.attention import (
    Linear,
    PostNormBlock,
    compute_dtype,
    truncated_normal_,
)
from trm.models.iterative import Network, recur
from trm.runtime.torch_settings import float32_default

_WIDE = 512  # channels of a SwiGLU above which fewer op inputs are computed at once


class CellNetwork(Indexed, Network):
    """Network that computes the outputs of ops from their inputs.

    Attributes:
        outputs: number of classes by output: the symbol, then every signal.
        encoding: codec of the inputs of a cell's ops.
        reader: computes these inputs as tensors.
    """

    arithmetic = "float32"  # in which a proof of such a model holds
    config: CellConfig
    H_init: Tensor
    L_init: Tensor
    _logits: Tensor  # int64 [outputs, most classes], indices of each output's logits, padded

    @float32_default()
    def __init__(self, config: CellConfig):
        super().__init__()
        if not config.messages:
            raise ValueError("messages are missing: take rule_settings(task.local_rule())")
        self.config = config
        passed = {
            name: n for direction in config.messages.values() for name, n in direction.items()
        }
        self.signals = passed | config.own
        self.outputs = {SYMBOL: config.vocab_size, **self.signals}
        directions = {
            direction: tuple(config.messages.get(direction, ())) for direction in NEIGHBOURS
        }
        ops = [Op(tuple(one["outputs"]), tuple(one["inputs"])) for one in config.ops]
        ops = ops or [Op(tuple(self.outputs))]
        self.encoding = OpEncoding(directions, self.signals, ops, config.vocab_size)
        self.make_network()
        self.reader = OpReader(self.encoding, self.outputs)
        # With NumPy: `torch.arange` on the meta device imports SymPy.
        every = torch.from_numpy(np.arange(sum(self.outputs.values())))
        every = every.split(list(self.outputs.values()))
        padded = nn.utils.rnn.pad_sequence(list(every), True, sum(self.outputs.values()))
        self.keep(_logits=padded)

    def make_network(self) -> None:
        """Create the weights, newly initialised."""
        config, D = self.config, self.config.hidden_size
        self.scale = D**0.5
        # A row for each class of each signal; last, if ops read it, two for a neighbour's presence.
        presence = 2 * any("" in names for of in self.encoding.inputs for names in of)
        if config.shared_classes:
            self.embed_shared = SharedClasses(self.outputs, bool(presence), D)
        else:
            self.embed_tokens = nn.Embedding(config.vocab_size, D)
            self.embed_messages = nn.Embedding(sum(self.signals.values()) + presence, D)
            truncated_normal_(self.embed_tokens.weight, 1 / self.scale)
            truncated_normal_(self.embed_messages.weight, 1 / self.scale)
        if config.num_heads:
            # A bias for each attention head and direction. Scaled like embeddings, so that one
            # learning rate suits all.
            first = torch.zeros(config.num_heads, len(self.encoding.directions))
            for lane in range(config.num_heads):
                first[lane, lane % first.shape[1]] = config.direction_bias / self.scale
            self.position = nn.ParameterDict({"direction": nn.Parameter(first)})
        mixing = NeighbourAttention if config.num_heads else AddedMessages
        self.layers = nn.ModuleList(
            PostNormBlock(D, config.num_heads, config.intermediate_size, mixing)
            for _ in range(config.num_layers)
        )
        if not config.shared_classes:
            self.lm_head = Linear(D, sum(self.outputs.values()), bias=True)
        self.halt_head = nn.Linear(D, 1)
        nn.init.zeros_(self.halt_head.weight)
        nn.init.constant_(self.halt_head.bias, -5.0)
        for name in ("H_init", "L_init"):  # fixed, and not among the parameters
            self.register_buffer(name, truncated_normal_(torch.empty(D), 1.0))
        self.embed_ops = None
        if config.ops:
            self.embed_ops = nn.Embedding(len(self.encoding.ops), D)
            truncated_normal_(self.embed_ops.weight, 1 / self.scale)

    @staticmethod
    def settings_of(task: Task, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that follow from the local rule of a task; for `trm fit`.

        Args:
            task: whose problems are learned.
            settings: all others.
        """
        codes = settings.get("codes") or {}
        return rule_settings(task.local_rule(latent=bool(codes)).with_codes(codes))

    def cells(
        self, op_inputs: OpInputs, tables: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the outputs of N ops.

        Args:
            op_inputs: their inputs, see `OpReader.decode`.
            tables: `message_tables`, to share them between calls.

        Returns:
            Logits [N, sum of C], see `parts`: only those of the op's own outputs are used. Halt
            logits, float32 [N], of "these outputs are correct".
        """
        tables = tables or self.message_tables()
        keys_values = [table[op_inputs.places] for table in tables]
        x = self.token_weight * self.scale
        x = x.to(compute_dtype(x))[op_inputs.token]  # [N, D]
        if self.embed_ops is not None:
            x = x * op_inputs.reads_token
            x = x + (self.embed_ops.weight * self.scale).to(x.dtype)[op_inputs.op]
        return self._outputs(x, keys_values, op_inputs.present)

    def relaxed(self, tokens: Tensor, messages: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Compute as `cells` from relaxed messages, to learn latent codes.

        Args:
            tokens: symbol ids, int64 [N].
            messages: probabilities of all classes of all signals, float [N, directions, classes];
                0 for a signal that is not passed in that direction.
            present: bool [N, directions], neighbours that exist.
        """
        vectors = messages @ (self.message_weight * self.message_scale)
        x = (self.token_weight * self.scale)[tokens]
        keys_values = [mixing.keys_values(vectors) for _, mixing in self.blocks]
        return self._outputs(x, keys_values, present)

    def _outputs(
        self, x: Tensor, keys_values: list[Tensor], present: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run all cycles from inputs [N, D], and read logits and halt logits from the last z_H."""
        around = self.around(keys_values, present)
        z_H, z_L = (init.to(x.dtype).expand_as(x) for init in (self.H_init, self.L_init))
        cycles = self.config.H_cycles, self.config.L_cycles
        z_H, _ = recur(lambda z: self.apply_layers(z, around), x, z_H, z_L, *cycles)
        return self.op_logits(z_H), self.halt_head(z_H)[:, 0].float()

    def op_logits(self, z_H: Tensor) -> Tensor:
        """Return the logits of all outputs, [N, sum of C], from states [N, D]."""
        shared = self.config.shared_classes
        return F.linear(z_H, *self.output_weights) if shared else self.lm_head(z_H)

    @property
    def token_weight(self) -> Tensor:
        """Embeddings of symbols, [vocabulary, D]; to be scaled by ``scale``."""
        shared = self.config.shared_classes
        return self.embed_shared.tokens if shared else self.embed_tokens.weight

    @property
    def message_weight(self) -> Tensor:
        """Embeddings of classes, [rows, D], see `class_starts`; scaled by ``message_scale``."""
        shared = self.config.shared_classes
        return self.embed_shared.messages if shared else self.embed_messages.weight

    @property
    def output_weights(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the logits, [sum of C, D] and [sum of C]."""
        if self.config.shared_classes:
            return self.embed_shared.outputs
        return self.lm_head.weight, self.lm_head.bias

    def plain_weights(self) -> dict[str, Tensor]:
        """Return shared weights as a model without `shared_classes` has them, by their names."""
        if not self.config.shared_classes:
            return {}
        names = ("embed_tokens.weight", "embed_messages.weight", "lm_head.weight", "lm_head.bias")
        parts = (self.token_weight, self.message_weight, *self.output_weights)
        return {name: part.detach() for name, part in zip(names, parts, strict=True)}

    def around(self, keys_values: list[Tensor], present: Tensor) -> NeighbourKV:
        """Return keys and values by attention head.

        Args:
            keys_values: of each layer, [N, directions, 2 * D]; without heads [N, directions, D].
            present: bool [N, directions], neighbours that exist.
        """
        if not self.config.num_heads:
            there = present.unsqueeze(-1)
            sums = [(kv * there).sum(1) for kv in keys_values]
            return NeighbourKV([(each, each) for each in sums], there, present)
        split = [kv.unflatten(-1, (2, self.config.num_heads, -1)).unbind(2) for kv in keys_values]
        alone = ~present.any(dim=1, keepdim=True)
        absent = keys_values[0].new_zeros(present.shape)
        absent = absent.masked_fill(~(present | alone), -torch.inf).unsqueeze(-1)
        return NeighbourKV([(k, v) for k, v in split], absent, alone)

    @property
    def computes_as_proved(self) -> bool:
        """True if the model now computes in the arithmetic of its proof."""
        return computes_float32(self.H_init)

    def apply_layers(self, x: Tensor, around: NeighbourKV) -> Tensor:
        """Apply all layers once, [N, D] to [N, D]."""
        if not self.config.num_heads:
            for layer, (total, _) in zip(self.layers, around.keys_values, strict=True):
                x = layer(x, total)
            return x
        bias = (self.position["direction"] * self.scale).to(x.dtype).T  # [directions, heads]
        for layer, (k, v) in zip(self.layers, around.keys_values, strict=True):
            x = layer(x, k, v, bias, around.absent, around.alone)
        return x

    @property
    def blocks(self) -> list[tuple[PostNormBlock, NeighbourAttention]]:
        """The layers, each with its attention."""
        return [(layer, layer.mixing) for layer in self.layers]  # type: ignore[misc]

    def at_once(self, most: int) -> int:
        """Return how many op inputs to compute at once: ``most``, and fewer with a wide SwiGLU."""
        return max(1, most * _WIDE // max(_WIDE, self.config.intermediate_size))

    def parts(self, outputs: Tensor) -> dict[str, Tensor]:
        """Split logits [..., sum of C] by output: the symbol and each signal, [..., C] each."""
        sizes = list(self.outputs.values())
        return dict(zip(self.outputs, outputs.split(sizes, dim=-1), strict=True))

    def decided(self, outputs: Tensor) -> Tensor:
        """Return the likeliest class of each output, int64 [N, outputs], from [N, sum of C]."""
        return F.pad(outputs, (0, 1), value=-torch.inf)[:, self._logits].argmax(dim=-1)

    def margins(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Smallest logit margin per op input, float [N].

        Args:
            outputs: logits, [N, sum of C].
            labels: correct classes, int64 [N, outputs]; −1: no label.
        """
        least = outputs.new_full((len(outputs),), torch.inf)
        for logits, correct in zip(self.parts(outputs).values(), labels.unbind(1), strict=True):
            label = correct.clamp(min=0)[:, None]
            margin = logits.gather(1, label)[:, 0] - logits.scatter(1, label, -torch.inf).amax(1)
            least = torch.minimum(least, margin.masked_fill(correct < 0, torch.inf))
        return least

    def message_tables(self) -> list[Tensor]:
        """Keys and values of all messages, [message ids, 2 * D] for each layer.

        Without heads: the messages, [message ids, D].

        There is a row for every message id of each op (see `canvas.cells.encoding.OpEncoding`):
        direction after direction, in each op after op.
        """
        weight = self.message_weight
        dtype = compute_dtype(weight)
        vectors = [part.to(dtype) for part in self.message_vectors(weight)]
        return [torch.cat([mixing.keys_values(v) for v in vectors]) for _, mixing in self.blocks]

    @property
    def class_starts(self) -> dict[str, int]:
        """Row of each signal's first class in `message_weight`; "": a neighbour's presence."""
        starts = accumulate(self.signals.values(), initial=0)
        return dict(zip((*self.signals, ""), starts, strict=True))

    @property
    def message_scale(self) -> float:
        """Embedding scale that gives the longest message unit variance."""
        most = max(1, *(len(names) for names in self.encoding.directions.values()))
        return (self.config.hidden_size / most) ** 0.5

    def message_vectors(self, embed: Tensor) -> list[Tensor]:
        """Return sums of the embeddings of a message's signals, [message ids, D] per direction."""
        return self.message_sums(embed * self.message_scale)

    def message_sums(self, embed: Tensor) -> list[Tensor]:
        """Return the same of scaled embeddings, floats or integers [classes, D]."""
        encoding, start = self.encoding, self.class_starts
        vectors = []
        for direction in range(len(encoding.directions)):
            of_ops = []
            for op in range(len(encoding.ops)):
                size = encoding.sizes[op][direction]
                total = embed.new_zeros(size, embed.shape[1])
                for name, value in encoding.signals(op, direction, np.arange(size)).items():
                    if name or encoding.ops[op].inputs is not None:
                        total = total + embed[torch.from_numpy(start[name] + value)]
                of_ops.append(total)
            vectors.append(torch.cat(of_ops))
        return vectors
