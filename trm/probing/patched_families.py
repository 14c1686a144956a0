"""Where models of each family can be patched, which token stands where, and how they are run."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from canvas.render import to_sequences
from canvas.symbols import ROW_END
from trm.models.canvas_transformer import Context
from trm.models.capture import attention_of
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, Loop, named, unnamed
from trm.models.layers import Attention
from trm.models.ordered import work_in_order
from trm.probing.features import loops_of
from trm.probing.lens import gpt_site
from trm.probing.patched_runs import Runs, Site, SiteHook
from trm.solving.rollout import Predictor


class Canvases(Runs):
    """A model that takes supervision steps.

    Args:
        model: see `Runs`.
        inputs, labels, steps: see `trm.probing.patching.patch`.
    """

    model: IterativeModel

    def __init__(
        self, model: IterativeModel, inputs: np.ndarray, labels: np.ndarray, steps: Sequence[int]
    ) -> None:
        super().__init__(model, inputs, labels)
        self.tokens = torch.from_numpy(inputs).to(next(model.parameters()).device)
        self.steps = sorted(steps)
        height, width = inputs.shape[1:]
        self.grid = np.arange(height * width).reshape(height, width)
        context = model.encode(self.tokens)
        if isinstance(context, Context) and context.places is not None:
            of_a, of_b = context.places.cpu().numpy()
            if (of_a != of_b).any():
                raise ValueError(
                    "the model's tokens are not in the same cells in the two problems (it reads "
                    "written cells alone, or turned one page): take a problem whose rows are as "
                    "long, or another row"
                )
            flat = np.full(height * width + 1, -1)
            flat[of_a] = np.arange(len(of_a))
            self.grid = flat[:-1].reshape(height, width)

    def sites(self) -> list[Site]:
        """The embedded symbols, and the state after supervision steps."""
        return [*self._input(), *(Site(f"step {n}", step=n) for n in self.steps)]

    def states(self) -> list[Site]:
        """The state after supervision steps."""
        return [Site(f"step {n}", whole=True, step=n) for n in self.steps]

    @property
    def state_names(self) -> list[str]:
        """As its model calls them."""
        return list(named(self.model.initial_state(self.model.encode(self.tokens))))

    def heads(self) -> list[Site]:
        """Each layer of the updates of each tensor of the state, in all supervision steps."""
        layers, updates = self._attention(), self.model.updates
        names = dict.fromkeys(updates)
        return [
            Site(
                f"layer {number}" if len(names) == 1 else f"{name}, layer {number}",
                layer.out,
                heads=True,
                calls=frozenset(i for i, updated in enumerate(updates) if updated == name),
                period=len(updates),
            )
            for name in names
            for number, layer in enumerate(layers, start=1)
        ]

    def _attention(self) -> list[Attention]:
        found = attention_of(self.model)
        if not found or not self.model.updates:
            raise ValueError(
                f"the heads of {type(self.model).__name__} cannot be patched: it has no attention "
                "between cells, or does not tell its updates. Patch cells, rows or columns"
            )
        return found

    def _input(self) -> list[Site]:
        embedding = getattr(self.model, "embed_tokens", None)
        return [] if embedding is None else [Site("input", embedding)]

    def _logits(self, samples: list[int], site: Site, take: SiteHook) -> Tensor:
        loop = Loop(self.model, self.tokens[samples])
        for step in range(1, self.steps[-1] + 1):
            loop.step()
            if site.step == step:
                parts = {name: take(value) for name, value in named(loop.state).items()}
                loop.state = unnamed(loop.state, parts)
        return self._read(loop)

    def _read(self, loop: Loop) -> Tensor:
        rows, columns = self.answer
        return loop.read()[0][:, rows, columns].float()


class InOrder(Canvases):
    """A model that works each cell out once.

    It comes to the page that no supervision step changes; so does a patched run, in which whatever
    is replaced is replaced in all steps.

    Args:
        model: see `Runs`.
        inputs, labels, steps: see `trm.probing.patching.patch`; steps are of no use.
    """

    def __init__(
        self, model: IterativeModel, inputs: np.ndarray, labels: np.ndarray, steps: Sequence[int]
    ) -> None:
        super().__init__(model, inputs, labels, steps)
        worked = work_in_order(model, self.tokens)  # type: ignore[arg-type]
        assert worked is not None  # both pages have one width
        self.finished = worked.state

    def sites(self) -> list[Site]:
        """The embedded symbols, and what each layer of each loop gives."""
        K = self.model.config.loops_per_step
        layers = list(self.model.layers)  # type: ignore[arg-type]
        found = [
            Site(self._name(loop, number), layer, calls=frozenset({loop}), period=K)
            for loop in range(K)
            for number, layer in enumerate(layers, start=1)
        ]
        return [*self._input(), *found]

    def states(self) -> list[Site]:
        """None, as nothing is computed from a state of a step before: see `Runs.states`."""
        return Runs.states(self)

    def heads(self) -> list[Site]:
        """Each layer of each loop."""
        K = self.model.config.loops_per_step
        return [
            Site(self._name(loop, number), layer.out, True, frozenset({loop}), K)
            for loop in range(K)
            for number, layer in enumerate(self._attention(), start=1)
        ]

    def _name(self, loop: int, layer: int) -> str:
        several = self.model.config.loops_per_step > 1
        return f"loop {loop + 1}, layer {layer}" if several else f"layer {layer}"

    def _logits(self, samples: list[int], site: Site, take: SiteHook) -> Tensor:
        loop = Loop(self.model, self.tokens[samples])
        loop.state = self.finished[samples]
        for _ in range(self.grid.size + 2):  # a cell may depend on all cells before it
            before = loop.state
            loop.step()
            if torch.equal(loop.state, before):
                break
        return self._read(loop)


class Sequences(Runs):
    """A GPT, that reads each page down to its row as it should be.

    Args:
        predictor: with the model.
        model: see `Runs`.
        inputs, labels: see `trm.probing.patching.patch`.
    """

    model: GPT

    def __init__(
        self, predictor: Predictor, model: GPT, inputs: np.ndarray, labels: np.ndarray
    ) -> None:
        super().__init__(model, inputs, labels)
        self.loops = loops_of(predictor)
        _, self.height, width = labels.shape
        self.width, last = width, self.page_row + 1
        ids = to_sequences(labels[:, :last])[:, :-1]  # of the row's end nothing is asked
        self.ids = torch.from_numpy(ids).to(next(model.parameters()).device)
        token = 1 + np.arange(last * (width + 1)).reshape(last, width + 1)
        self.grid = token[:, ::-1].copy()  # row ends on the left
        self.grid[-1, 0] = -1
        ends = np.full((2, last, 1), ROW_END, dtype=np.uint8)
        self.pages = np.concatenate((ends, labels[:, :last]), axis=2)
        self.writers = self.grid[self.page_row, 1 + self.answer[1]] - 1
        self.page_columns = 1 + self.answer[1]

    def sites(self) -> list[Site]:
        """The embedded symbols, and what each block of each loop gives."""
        blocks = [
            Site(gpt_site(loop, self.loops, number), block, calls=frozenset({loop}))
            for loop in range(self.loops)
            for number, block in enumerate(self.model.layers, start=1)
        ]
        return [Site("input", self.model.embed_tokens), *blocks]

    def heads(self) -> list[Site]:
        """Each block of each loop."""
        return [
            Site(gpt_site(loop, self.loops, number), layer.out, True, frozenset({loop}))
            for loop in range(self.loops)
            for number, layer in enumerate(attention_of(self.model), start=1)
        ]

    def _logits(self, samples: list[int], site: Site, take: SiteHook) -> Tensor:
        x = self.model.activations(self.ids[samples], self.height, self.width, loops=self.loops)
        return self.model.head(x[:, torch.from_numpy(self.writers).to(x.device)]).float()
