import re
from hashlib import sha256

import pytest

from trm.benchmark.export import export
from trm.benchmark.suites import SUITES, items, json_line

SUITE = SUITES["multiply-v1"].within(3)


def test_json_lines_are_the_canonical_file_and_their_sum_is_on_the_card(tmp_path):
    folder = tmp_path / "new" / "folder"
    for _ in range(2):  # the same again
        assert export(SUITE, folder) == [folder / "multiply-v1.jsonl", folder / "CARD.md"]
    written = (folder / "multiply-v1.jsonl").read_bytes()
    assert written.decode() == "".join(map(json_line, items(SUITE)))
    assert sha256(written).hexdigest() in (folder / "CARD.md").read_text()
    with pytest.raises(ValueError, match="holds something else already"):
        export(SUITE.within(2), folder)
    assert (folder / "multiply-v1.jsonl").read_bytes() == written


def test_a_card_bears_no_date_and_no_seed_and_says_what_to_mind(tmp_path):
    export(SUITES["canvas-v1"].within(2), tmp_path, seed=9146204175132267415)
    text = (tmp_path / "CARD.md").read_text()
    assert not re.search(r"\b20\d\d\b", text)
    for word in ("MIT", "SHA-256", "Contamination", "test split", "--seed"):
        assert word in text
    assert "9146204175132267415" not in text
