"""Dyck-1: whether brackets are balanced, character by character."""

from dataclasses import dataclass

import numpy as np

from canvas.arithmetic import Numbers, parse
from canvas.problems import random_below
from canvas.texts import TextTask
from trm.extras.analysis.rasp import select, true_of

MISTAKES = 16  # of so many brackets one is drawn whatever came before


@dataclass
class Dyck1(TextTask):
    """T: balanced so far; P: can be completed; F: cannot. ())(( → PTFFF."""

    letters, outputs = "()", "TPF"  # pairs of brackets

    def solve(self, text):
        answer, expected = "", ""  # closing brackets that are still to come, the last one first
        for bracket in text:
            kind = self.letters.index(bracket)
            if kind % 2 == 0:
                expected = self.letters[kind + 1] + expected
            elif expected[:1] != bracket:
                return answer.ljust(len(text), "F")
            else:
                expected = expected[1:]
            answer += "P" if expected else "T"
        return answer

    def random_operand(self, words, lengths):
        high = random_below(words, 2**32)
        texts = [self._text(line, n) for line, n in zip(high.tolist(), lengths, strict=True)]
        drawn = Numbers.from_ints([parse(text, self.base) for text in texts], self.base)
        return Numbers(drawn.padded(words.shape[1]), drawn.lengths, self.base)

    def _text(self, words, length):
        text, expected = "", ""
        for word in words[:length]:
            word, mistaken = word // MISTAKES, word % MISTAKES == 0
            kind = word // 2 % len(self.letters) // 2 * 2
            found = expected[0] if expected and word % 2 else self.letters[kind]
            text += self.letters[word % len(self.letters)] if mistaken else found
            expected = expected[1:] if found == expected[:1] else self.letters[kind + 1] + expected
        return text

    def program(self, text):
        until = text.selectors["until here"] = select(text.indices, text.indices, np.less_equal)
        opened = (until & true_of(text.letters == "(")).sum(axis=-1)
        closed = (until & true_of(text.letters == ")")).sum(axis=-1)
        failed = (until & true_of(opened < closed)).any(axis=-1)
        return np.where(failed, "F", np.where(opened == closed, "T", "P"))
