"""A study as a file, and its shares."""

import json
from dataclasses import replace

import numpy as np
import pytest

from trm.evaluation.statistics import Share
from trm.probing.results import FILE, Count, ProbeStudy, Table, pooled, read_study
from trm.probing.tally import _share


def test_a_study_comes_back_from_its_file_as_it_was(study: ProbeStudy, tmp_path):
    study.write(tmp_path)
    read = read_study(tmp_path)
    assert read.to_json() == study.to_json()
    assert read.sizes == study.sizes
    assert json.loads((tmp_path / FILE).read_text())["format"] == 1


@pytest.mark.parametrize("text", [None, "[]", "{}", '{"format": 2}', '{"format": 1}'])
def test_another_file_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"probe\.json"):
        read_study(tmp_path)


def test_the_gap_is_of_rows_with_right_sub_tasks():
    shares = Table(both=6, gap=2, otherwise=3, neither=9).shares
    counts = {name: (share.right, share.total) for name, share in shares.items()}
    assert counts == {"subtasks": (8, 20), "answers": (9, 20), "gap": (2, 8), "otherwise": (3, 12)}
    assert (shares["gap"].low, shares["gap"].high) == Share(2, 8).interval


def test_pooled_shares_add_up_cells(study: ProbeStudy):
    found = [size.at("sum", "z_H", 2) for size in study.measured]
    right, total = (sum(getattr(r.probe, k) for r in found if r) for k in ("right", "total"))
    assert pooled(found, "probe") == right / total
    assert pooled([None], "probe") is None
    known, control = (pooled(found, reader) for reader in ("known", "control"))
    assert pooled(found, "selectivity") == known - control
    without = [replace(r, head=None) for r in found if r]
    assert pooled(without, "head") is None


def test_the_interval_of_cells_is_that_of_problems():
    """Cells that are right or wrong by whole problems tell as much as one cell of each."""
    weights = np.random.default_rng(0).multinomial(50, np.full(50, 1 / 50), 1000)
    right, total = np.arange(50) < 30, np.ones(50, dtype=np.int64)
    one = _share(right * total, total, weights)
    many = _share(100 * right * total, 100 * total, weights)
    assert (one.low, one.high) == (many.low, many.high)
    assert abs(one.low - Share(30, 50).interval[0]) < 0.04
    assert _share(total, total, weights) == Count(50, 50, *Share(50, 50).interval)
    assert _share(0 * total, total, weights).high == Share(0, 50).interval[1]
