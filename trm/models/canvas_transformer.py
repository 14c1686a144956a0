"""What all transformers over the cells of a canvas share: tokens, positions, layers and heads.

A model of its own has, beside these, a state and an update of it: see `TinyRecursiveModel` and
`LoopedTransformer`.
"""

import math
from dataclasses import dataclass, field, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.choices import check_choices, one_of
from trm.models.bias import attention_bias, rows_around
from trm.models.context import Context, on_canvas
from trm.models.coordinates import (
    IN_ORDER,
    NEIGHBOURHOODS,
    Coordinates,
    down_to_last,
    last_rows,
)
from trm.models.hints import HintHeads
from trm.models.iterative import IterativeModel
from trm.models.layers import (
    Attention,
    Linear,
    PostNormBlock,
    SwiGLU,
    compute_dtype,
    swiglu_size,
    truncated_normal_,
)
from trm.models.positions import POSITIONS, check_canvas, make_position
from trm.models.vocabulary import BLANK, MASK, VOCAB_SIZE

_CERTAIN = 30.0  # logit of a blank cell that is no token

BLOCKS = ("attention", "mixer")
HALT_POOLS = ("first", "mean", "mask")
_LEAST = dict.fromkeys(("blank_id", "mask_id", "radius", "num_prefixes", "prefix_length"), 0)


@dataclass
class CanvasConfig:
    """The shape of a transformer over a canvas; the defaults are the reference TRM's.

    Raises:
        ValueError: a size is not positive, sizes do not fit together, or a name is unknown.
    """

    height: int = 20  # canvas that learned positions and the mixer are made for
    width: int = 20
    vocab_size: int = VOCAB_SIZE
    blank_id: int = BLANK  # the symbol of a cell in which nothing stands
    mask_id: int = MASK  # the symbol of a cell to fill in
    hidden_size: int = 512  # channels of a token
    num_heads: int = 8  # attention heads
    num_layers: int = 2  # blocks in the one network
    intermediate_size: int | None = None  # inside SwiGLU; None: from expansion
    expansion: float = 4.0  # 2/3 of expansion * width, up to a multiple of 256
    block: str = one_of("attention", BLOCKS)  # mixer: an MLP over tokens, for one canvas size
    skip_blank: bool = False  # whether blank cells are left out, and only the others are tokens
    crop: bool = False  # whether cells outside the box of all that is not blank are left out
    position: str = one_of("rope_1d", POSITIONS, open=True)  # how it is encoded; mixer: none
    neighbourhood: str = one_of("all", NEIGHBOURHOODS)  # cells that attention sees
    radius: int = 2  # of the local square, and of the exact offsets of relative_2d
    max_distance: int = 16  # shaw: distances distinguished
    direction_bias: float = 0.0  # relative_2d: of each head, at the start
    rope_theta: float = 10000.0  # base of the rotations of rope_1d and rope_2d
    num_prefixes: int = 0  # learned prefixes to choose from ("puzzle" identifiers); 0: no prefix
    prefix_length: int = 0  # tokens of a prefix
    prefix_size: int | None = None  # numbers learned per prefix, zero-padded; None: all of them
    halt_pool: str = one_of("first", HALT_POOLS)  # tokens that the halting head reads
    hints: dict[str, int] = field(default_factory=dict)  # classes of each hint that has a head
    decide: float = 0.0  # states keep hints alone, those above this probability; 0: all they hold
    decide_training: float | None = None  # the same in training; None: as decide
    norm_eps: float = 1e-5  # added under the root of the RMS norms

    def __post_init__(self) -> None:
        check_choices(self)
        if self.position in ("randomised", "abacus"):
            raise ValueError(
                f"{self.position} positions are drawn anew for every batch, under which a carry's "
                "states would change places: choose another position, or train a GPT."
            )
        for part in fields(self):
            value, minimum = getattr(self, part.name), _LEAST.get(part.name, 1)
            if part.type in (int, int | None) and value is not None and value < minimum:
                raise ValueError(f"{part.name} must be {minimum} or more, got {value}.")
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "hidden_size must be a multiple of num_heads, "
                f"got {self.hidden_size} and {self.num_heads}."
            )
        if self.expansion <= 0 or self.norm_eps <= 0 or self.rope_theta <= 0:
            raise ValueError("expansion, norm_eps and rope_theta must be greater than 0.")
        free = (self.position, self.neighbourhood, self.skip_blank)
        if self.block == "mixer" and free != ("none", "all", False):
            raise ValueError(
                "the mixer knows where each token is: set position to none, neighbourhood to all "
                f"and skip_blank to false, got {free[0]}, {free[1]} and {str(free[2]).lower()}."
            )
        if self.skip_blank and self.blank_id >= self.vocab_size:
            raise ValueError(
                f"blank_id must be below vocab_size {self.vocab_size}, got {self.blank_id}."
            )
        check_direction_bias(self.direction_bias, self.position)
        for name in ("decide", "decide_training"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is a probability from 0 to 1, got {value}.")
        if self.decide and self.decide_training == 0:
            raise ValueError(
                f"decide: {self.decide} builds states from hints, and decide_training: 0 would not "
                "in training: set decide_training above 0, or to null."
            )
        if self.decide and not self.hints:
            raise ValueError(
                f"decide: {self.decide} keeps in the states the hints that the heads are sure of, "
                "and this model has no hints: give model.hints a weight, as {all: 1.0}, or set "
                "decide to 0."
            )
        if (self.num_prefixes > 0) != (self.prefix_length > 0):
            raise ValueError(
                "num_prefixes and prefix_length go together, both 0 or both positive, "
                f"got {self.num_prefixes} and {self.prefix_length}."
            )
        if (self.prefix_size or 0) > self.prefix_length * self.hidden_size:
            raise ValueError(
                "prefix_size must be at most prefix_length * hidden_size = "
                f"{self.prefix_length * self.hidden_size}, got {self.prefix_size}."
            )


def check_direction_bias(direction_bias: float, position: str) -> None:
    """Raise a ValueError where a position that has no use for it is given a direction bias."""
    if direction_bias != 0 and position != "relative_2d" and "." not in position:
        raise ValueError(
            f"direction_bias is of relative_2d alone, got {direction_bias} with position "
            f"{position}: set direction_bias to 0 or position to relative_2d."
        )


class CanvasTransformer(IterativeModel):
    """A stack of post-norm blocks over the tokens of a canvas, with everything around it.

    A subclass says what its state is (`initial_state`), how a supervision step changes it
    (`iterate`, by means of `network`), and which tensor the heads read (`read`, by `heads`).
    Under autocast the states are kept in autocast's dtype, and norms and softmax are computed in
    float32.

    Args:
        config: its shape.
    """

    config: CanvasConfig

    def __init__(self, config: CanvasConfig):
        super().__init__()
        self.config = config
        D = config.hidden_size
        self.embed_scale = math.sqrt(D)
        std = 1 / self.embed_scale
        self.embed_tokens = nn.Embedding(config.vocab_size, D)
        truncated_normal_(self.embed_tokens.weight, std)
        self.prefix: nn.Parameter | None = None
        if config.num_prefixes:
            size = config.prefix_size or config.prefix_length * D
            self.prefix = nn.Parameter(torch.zeros(config.num_prefixes, size))
        self.position = make_position(
            config.position,
            hidden_size=D,
            num_heads=config.num_heads,
            height=config.height,
            width=config.width,
            prefix_length=config.prefix_length,
            radius=config.radius,
            rope_theta=config.rope_theta,
            max_distance=config.max_distance,
            std=std,
            amplitude=std * math.sqrt(2),  # as strong as a token embedding
            direction_bias=config.direction_bias,
            bias_scale=self.embed_scale,  # a learning rate moves it as much as an embedding
        )
        self.layers = nn.ModuleList(self._block() for _ in range(config.num_layers))
        self.lm_head = Linear(D, config.vocab_size)
        self.hint_heads: HintHeads | None = None
        if config.hints:
            self.hint_heads = HintHeads(D, config.hints, config.decide > 0)
        # Two outputs as in the reference, of which the second (continue) is not read. The start
        # at -5 says "wrong", which nearly all early answers are.
        self.halt_head = nn.Linear(D, 2)
        nn.init.zeros_(self.halt_head.weight)
        nn.init.constant_(self.halt_head.bias, -5.0)

    @property
    def position_free(self) -> bool:  # type: ignore[override]
        """Whether a canvas has no edges: not all cells are tokens, and places are offsets."""
        return not self.fixed_tokens and not self.position.absolute

    @property
    def fixed_tokens(self) -> bool:  # type: ignore[override]
        """Whether every cell is a token."""
        return not self.config.skip_blank and not self.config.crop

    def accepts(self, height: int, width: int) -> bool:
        """Whether the mixer and the position encoding serve canvases of that size."""
        config = self.config
        if config.block == "mixer":
            return (height, width) == (config.height, config.width)
        return self.position.accepts(Coordinates.canvas(height, width, config.prefix_length))

    def pairs(self, height: int, width: int) -> int:
        """See `IterativeModel`; fewer where each cell sees the rows around its own alone."""
        rows = rows_around(self.config.neighbourhood, self.config.radius)
        of_offsets = not self.position.absolute and not self.position.by_query
        if rows is None or not self.config.crop or not of_offsets:
            return super().pairs(height, width)
        return height * width * width * (2 * rows + 1)

    def lengths(self, context: Context) -> Tensor:
        """How many tokens of each sample are not padding, prefix included, int64 [B]."""
        return context.lengths

    def encode(self, tokens: Tensor, prefix_ids: Tensor | None = None) -> Context:
        """Embed a batch of canvases, and work out what attention sees of them.

        Args:
            tokens: symbol ids, any integer dtype, [B, H, W].
            prefix_ids: which learned prefix each sample has, integer [B]; only for a model with
                prefixes, which takes prefix 0 everywhere if it has no other.

        Raises:
            ValueError: the shape, the dtype or the canvas size does not suit the model, or
                prefix_ids are missing or not wanted.
        """
        config = self.config
        context, cells, written = self.embed(tokens, prefix_ids)
        if config.block != "attention":
            return context
        dtype = context.inputs.dtype
        rotation = self.position.rotation(cells)
        if rotation is not None:
            cos, sin = (x.to(dtype) for x in rotation)
            by_sample = cells.present is not None  # then with room for the heads
            rotation = (cos.unsqueeze(1), sin.unsqueeze(1)) if by_sample else (cos, sin)
        bias, keys = attention_bias(
            self.position, cells, config.neighbourhood, config.radius, written
        )
        bias = None if bias is None else bias.to(dtype)
        relative = self.position.relative_keys(cells)
        return replace(context, rotation=rotation, bias=bias, keys=keys, relative=relative)

    def embed(
        self, tokens: Tensor, prefix_ids: Tensor | None = None, rows: int | None = None
    ) -> tuple[Context, Coordinates, Tensor]:
        """A batch of canvases without what attention sees of them.

        Args:
            tokens, prefix_ids: see `encode`.
            rows: with ``crop``, how many rows of the box, from its last one up; None: all.

        Returns:
            The context, where its tokens sit, and bool [B, P + S] which of them are written.
        """
        if tokens.ndim != 3 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ValueError(
                "tokens must be symbol ids of integer dtype and shape [batch, height, width], "
                f"got {tokens.dtype} {list(tokens.shape)}."
            )
        config, P = self.config, self.config.prefix_length
        batch, height, width = tokens.shape
        cells = Coordinates.canvas(height, width, P, tokens.device)
        if config.block == "mixer":
            check_canvas("the mixer", cells, config.height, config.width, exact=True)
        flat, places = tokens.flatten(1), None
        if config.skip_blank or config.crop:
            kept = tokens != config.blank_id
            if config.neighbourhood in IN_ORDER:
                kept = kept & down_to_last(tokens == config.mask_id)
            if config.skip_blank:
                cells = cells.only(F.pad(kept.flatten(1), (P, 0), value=True))
            else:
                cells = cells.boxes(kept, None if rows is None else last_rows(kept, rows))
            assert cells.present is not None
            places = cells.index[:, P:] - P
            flat = flat.gather(1, places)
            places = places.masked_fill(~cells.present[:, P:], height * width)
        inputs = self.embed_tokens(flat.int())  # [B, S, D]
        prefix = self._embed_prefix(batch, prefix_ids)
        if prefix is not None:
            inputs = torch.cat((prefix, inputs), dim=1)  # [B, P + S, D]
        vectors = self.position.vectors(cells)
        if vectors is not None:
            inputs = (inputs + vectors) * math.sqrt(0.5)  # keeps the variance
        dtype = compute_dtype(inputs)
        inputs = (inputs * self.embed_scale).to(dtype)
        written = (flat != config.blank_id) & (flat != config.mask_id)
        weights = self._halt_weights(flat, cells.present)
        context = Context(inputs, weights, height, width, places)
        return context, cells, F.pad(written, (P, 0), value=True)

    def network(self, x: Tensor, context: Context, of_others: Tensor | None = None) -> Tensor:
        """All layers, once.

        Args:
            x: [B, P + S, D].
            context: of the same samples.
            of_others: [B, P + S, D], of which each token sees those of others in the first layer,
                in place of x. The context then has a bias on others.

        Returns:
            [B, P + S, D].
        """
        bias, blind = context.bias, None
        if of_others is not None:
            bias, blind = context.bias_on_others, context.alone
        for layer in self.layers:
            x = layer(x, context.rotation, bias, context.keys, of_others, blind, context.relative)
            bias, of_others, blind = context.bias, None, None
        return x

    def heads(self, z: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """What a tensor of the state says.

        Args:
            z: [B, P + S, D].
            context: of the same samples.

        Returns:
            Logits of every cell's symbol, [B, H, W, V], and of "the answer is right", float32
            [B]; above 0 means halt.
        """
        logits = self.lm_head(z[:, self.config.prefix_length :])
        blank = logits.new_zeros(logits.shape[-1])
        blank[self.config.blank_id] = _CERTAIN
        logits = on_canvas(logits, context, blank)
        if context.halt_weights is None:
            judged = z[:, 0]
        else:
            judged = (context.halt_weights.to(z.dtype).unsqueeze(1) @ z).squeeze(1)  # [B, D]
        return logits, self.halt_head(judged)[:, 0].float()

    def remembered(self, z: Tensor) -> Tensor:
        """What of a tensor of the state [B, P + S, D] the next supervision step starts from."""
        if self.hint_heads is None or not self.config.decide:
            return z
        return self.hint_heads.decided(z, self.certainty)

    @property
    def certainty(self) -> float:
        """How probable a hint must be to be kept in the states."""
        stricter = self.config.decide_training
        return stricter if self.training and stricter is not None else self.config.decide

    def hint_logits(self, z: Tensor, context: Context) -> dict[str, Tensor]:
        """What a tensor of the state [B, P + S, D] says of each hint: [B, H, W, classes] each."""
        if self.hint_heads is None:
            return {}
        parts = self.hint_heads(z[:, self.config.prefix_length :])
        return {name: on_canvas(logits, context) for name, logits in parts.items()}

    def _block(self) -> PostNormBlock:
        config = self.config
        D, length = config.hidden_size, config.prefix_length + config.height * config.width
        mixing: Attention | SwiGLU
        if config.block == "attention":
            mixing = Attention(D, config.num_heads)
        else:
            mixing = SwiGLU(length, swiglu_size(length, config.expansion))
        inner = config.intermediate_size or swiglu_size(D, config.expansion)
        return PostNormBlock(mixing, SwiGLU(D, inner), config.norm_eps)

    def _embed_prefix(self, batch: int, prefix_ids: Tensor | None) -> Tensor | None:
        """Prefix tokens, [B, P, D]."""
        if self.prefix is None:
            if prefix_ids is not None:
                raise ValueError("this model has no prefixes: leave prefix_ids out.")
            return None
        config = self.config
        if prefix_ids is None:
            if config.num_prefixes > 1:
                raise ValueError(f"prefix_ids must choose among {config.num_prefixes} prefixes.")
            prefix_ids = torch.zeros(batch, dtype=torch.long, device=self.prefix.device)
        if prefix_ids.shape != (batch,):
            raise ValueError(f"prefix_ids must have shape [{batch}], got {list(prefix_ids.shape)}.")
        prefix = F.embedding(prefix_ids.long(), self.prefix)
        missing = config.prefix_length * config.hidden_size - prefix.shape[1]
        return F.pad(prefix, (0, missing)).view(batch, config.prefix_length, config.hidden_size)

    def _halt_weights(self, tokens: Tensor, present: Tensor | None) -> Tensor | None:
        """What each token counts for the halting head, summing to 1, float32 [B, P + S]."""
        if self.config.halt_pool == "first":
            return None
        masked = F.pad(tokens == self.config.mask_id, (self.config.prefix_length, 0))
        counted = torch.ones_like(masked) if present is None else present
        if self.config.halt_pool == "mask":
            # A canvas with nothing left to fill in is judged as a whole.
            counted = masked | (counted & ~masked.any(dim=1, keepdim=True))
        weights = counted.float()
        return weights / weights.sum(dim=1, keepdim=True)
