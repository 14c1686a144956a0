"""Logistic regression on features that hold, or do not hold, what is asked."""

import pytest
import torch
import torch.nn.functional as F

from canvas.hints import UNDEFINED
from trm.probing.linear import fit


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(n: int, classes: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(classes, (n, 1), generator=torch.Generator().manual_seed(seed))


def test_what_is_there_in_a_line_is_found():
    y = labels(300, 5)
    features = torch.cat((F.one_hot(y[:, 0], 5) * 3.0 + 7, random(300, 4)), dim=1)
    probe = fit(features, y, [5])
    assert (probe(features) == y).all()


def test_what_is_not_there_is_not_found():
    features, y = random(4000, 8), labels(4000, 4)
    probe = fit(features[:2000], y[:2000], [4])
    right = (probe(features[2000:]) == y[2000:]).float().mean()
    assert 0.2 < right < 0.3


def test_several_tasks_at_once_are_those_one_by_one():
    features = random(200, 6)
    y = torch.cat(((features[:, :3].argmax(1, keepdim=True)), labels(200, 5)), dim=1)
    together = fit(features, y, [3, 5], l2=0.01, iterations=200)
    for task, classes in enumerate((3, 5)):
        alone = fit(features, y[:, [task]], [classes], l2=0.01, iterations=200)
        torch.testing.assert_close(
            together.weight[:, task, :classes], alone.weight[:, 0], atol=5e-3, rtol=0
        )


def test_cells_without_a_label_do_not_count():
    features, y = random(100, 4), labels(100, 3)
    more = torch.cat((features, 50 + random(20, 4)))
    padded = torch.cat((y, torch.full((20, 1), UNDEFINED)))
    one, other = fit(features, y, [3]), fit(more, padded, [3])
    assert torch.equal(one.weight, other.weight)


def test_a_class_of_another_task_is_never_named():
    y = torch.cat((labels(50, 2), labels(50, 6)), dim=1)
    assert fit(random(50, 3), y, [2, 6])(random(500, 3, seed=3))[:, 0].max() < 2


def test_a_constant_feature_and_a_rare_class_do_no_harm():
    features = torch.cat((random(60, 3), torch.ones(60, 1)), dim=1)
    probe = fit(features, labels(60, 2), [9])
    assert torch.isfinite(probe.weight).all()
    assert probe(features).max() < 2


def test_the_same_probe_every_time():
    features, y = random(100, 4), labels(100, 3)
    assert torch.equal(fit(features, y, [3]).weight, fit(features, y, [3]).weight)


def test_strong_decay_leaves_small_weights():
    features, y = random(100, 4), labels(100, 3)
    free, decayed = (fit(features, y, [3], l2=l2).weight.norm() for l2 in (0.0, 1.0))
    assert decayed < free / 3


@pytest.mark.parametrize(
    ("features", "y", "told"),
    [
        (torch.zeros(3, 2), torch.full((3, 1), UNDEFINED), "at least one labelled cell"),
        (torch.full((3, 2), torch.nan), torch.zeros(3, 1, dtype=torch.long), "not finite"),
    ],
)
def test_what_cannot_be_fitted_is_refused(features, y, told):
    with pytest.raises(ValueError, match=told):
        fit(features, y, [2])
