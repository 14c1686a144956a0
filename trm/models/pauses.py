"""Pause tokens: learned tokens that a GPT reads after the operands, before it answers.

Goyal et al. 2023, "Think before you speak: Training Language Models With Pause Tokens" (arXiv
2310.02226). All pauses stand behind the end of the row with the operation's sign, the last row of
operands in the layouts of this package. The first token of the answer is then predicted at the last
pause. Sequences without their pauses remain those of `canvas.sequences.sequences`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from canvas.symbols import PLUS, ROW_END, TIMES

SIGNS = (TIMES, PLUS)
FIRST = 256  # id of the first pause, above those of all symbols


class Pauses(NamedTuple):
    """Places of N pauses in B sequences of T tokens.

    Example: two pauses in ``^3_#2*#6_#``, where ``*`` is the sign, are read as ``^3_#2*#,,6_#``.
    """

    after: Tensor  # int64 [B], number of tokens before the pauses
    tokens: int  # T
    number: int  # N

    @staticmethod
    def of(ids: Tensor, number: int) -> "Pauses":
        """Find the places of ``number`` pauses, at the end of sequences without a sign.

        Args:
            ids: int64 [B, T], as for `trm.models.gpt.GPT.activations`; −1 is no symbol.
        """
        signed = torch.isin(ids, torch.tensor(SIGNS, device=ids.device)).cumsum(dim=1) > 0
        ends = signed & (ids == ROW_END)
        first = torch.where(ends.any(dim=1), ends.byte().argmax(dim=1) + 1, ids.shape[1])
        return Pauses(first, ids.shape[1], number)

    @property
    def sources(self) -> Tensor:
        """The token, int64 [B, T + N], that stands at each place; a pause has the one before it."""
        place = torch.arange(self.tokens + self.number, device=self.after.device)
        after = self.after[:, None]
        return torch.where(place < after, place, (place - self.number).clamp(min=after - 1))

    def inserted(self, ids: Tensor) -> Tensor:
        """Return sequences with their pauses, int64 [B, T] to [B, T + N]."""
        place = torch.arange(self.tokens + self.number, device=ids.device) - self.after[:, None]
        found = ids.gather(1, self.sources)
        return torch.where((place >= 0) & (place < self.number), FIRST + place, found)

    def removed(self, values: Tensor) -> Tensor:
        """Return the values of tokens alone, [B, T + N, ...] to [B, T, ...]."""
        return self._chosen(values, self.after)

    def of_writers(self, values: Tensor) -> Tensor:
        """Return the values that predict the token after each one, [B, T + N, ...] to [B, T, ...].

        Those of the last token before the pauses are the values of the last pause.
        """
        return self._chosen(values, self.after - 1)

    def _chosen(self, values: Tensor, later: Tensor) -> Tensor:
        token = torch.arange(self.tokens, device=values.device)
        index = token + self.number * (token >= later[:, None])
        return values[torch.arange(len(values), device=values.device)[:, None], index]
