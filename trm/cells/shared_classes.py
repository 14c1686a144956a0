"""One table of classes for the symbols, the signals and the outputs of a cell model.

In most signals class 0 stands for none and class 1 + d for the digit d. A cell model usually learns
an embedding and an output row for each class of each signal. With shared classes it learns a row
for each class, and for each signal a vector of scales.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from canvas.cells.spec import SYMBOL
from canvas.symbols import BLANK, DIGIT_OF, MASK, PLUS, TIMES
from trm.cells.op_inputs import Indexed
from trm.models.attention import truncated_normal_

_NEVER = -30.0  # logit of a symbol that no cell writes


class SharedClasses(Indexed):
    """Table of classes, with scales by signal.

    The embedding of class c of a signal is ``table[c] * read[signal]``. The output weight is
    ``table[c] * written[signal]``, and the bias that of class c. Each weight is one product, so it
    is the same on every machine.

    Symbols are classes, too: the blank is class 0, the digit d is class 1 + d. The mask and the
    sign have a row of their own after all classes. All other symbols have no embedding. A cell
    writes digits and blanks only.

    Example: 11 classes, 2 signals and 4 channels take 13 rows, 3 scales read and 3 written, and 11
    biases: 87 parameters.

    Args:
        outputs: number of classes by output: the symbol, then every signal.
        presence: whether ops read the presence of a neighbour, as classes 0 and 1.
        hidden_size: channels.
    """

    # int64 [N, 2], rows of the table and of the scales; -1: no row.
    _tokens: Tensor
    _messages: Tensor
    _outputs: Tensor

    def __init__(self, outputs: Mapping[str, int], presence: bool, hidden_size: int) -> None:
        super().__init__()
        vocabulary, *sizes = outputs.values()
        assert next(iter(outputs)) == SYMBOL
        most = max(sizes)
        self.table = nn.Parameter(torch.empty(most + 2, hidden_size))
        self.read = nn.Parameter(torch.empty(1 + len(sizes) + presence, hidden_size))
        self.written = nn.Parameter(torch.empty(1 + len(sizes), hidden_size))
        self.bias = nn.Parameter(torch.zeros(most))
        truncated_normal_(self.table, 1.0)
        truncated_normal_(self.read, hidden_size**-0.5)
        truncated_normal_(self.written, 1.0)
        digits = [int(digit) for digit in DIGIT_OF[:vocabulary]]
        own = {BLANK: 0, MASK: most, TIMES: most + 1, PLUS: most + 1}
        rows = [1 + d if 0 <= d < most - 1 else own.get(i, -1) for i, d in enumerate(digits)]
        classes = [(c, signal) for signal, size in enumerate(sizes, start=1) for c in range(size)]
        there = [(c, 1 + len(sizes)) for c in range(2 * presence)]
        parts = {
            "tokens": [(row, 0) for row in rows],
            "messages": classes + there,
            "outputs": [(row if row < most else -1, 0) for row in rows] + classes,
        }
        self.keep(**{f"_{name}": torch.tensor(part) for name, part in parts.items()})

    @property
    def tokens(self) -> Tensor:
        """Embeddings of symbols, [vocabulary, D]."""
        return self._scaled(self._tokens, self.read)

    @property
    def messages(self) -> Tensor:
        """Embeddings of all classes, signal after signal, [rows, D]; last those of presence."""
        return self._scaled(self._messages, self.read)

    @property
    def outputs(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the logits, [sum of C, D] and [sum of C]."""
        classes = self._outputs[:, 0]
        bias = self.bias[classes].masked_fill(classes < 0, _NEVER)
        return self._scaled(self._outputs, self.written), bias

    def _scaled(self, which: Tensor, scales: Tensor) -> Tensor:
        """Return scaled rows of the table, 0 where there is none; ``which``: int64 [N, 2]."""
        row, signal = which.unbind(1)
        return (self.table[row] * scales[signal]).masked_fill((row < 0).unsqueeze(1), 0)
