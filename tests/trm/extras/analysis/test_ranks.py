"""Effective ranks are what the singular values say."""

import math

import pytest
import torch

from trm.extras.analysis.ranks import effective_rank, state_ranks, weight_ranks
from trm.models.attention import SwiGLU


def test_the_effective_rank_is_the_exponential_of_an_entropy():
    assert effective_rank(3 * torch.eye(5)) == pytest.approx(5)
    assert effective_rank(torch.outer(torch.arange(1.0, 5), torch.ones(7))) == pytest.approx(1)
    assert effective_rank(torch.zeros(3, 2)) == 0
    turned = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))[0]
    matrix = torch.diag(torch.tensor([6.0, 3.0, 1.0, 0.0])) @ turned
    entropy = -sum(p * math.log(p) for p in (0.6, 0.3, 0.1))
    assert effective_rank(matrix) == pytest.approx(math.exp(entropy), rel=1e-5)


def test_ranks_of_weights_and_states_are_of_each_layer(make_solver):
    model = make_solver(intermediate_size=4).predictor.model
    ranks = weight_ranks(model)
    assert [(one.layer, one.name) for one in ranks] == [
        (layer, name) for layer in (1, 2) for name in ("gate", "up", "down")
    ]
    assert all(one.full == 4 and 1 < one.rank < 4.0001 for one in ranks)
    mlp = model.layers[0].mlp
    assert isinstance(mlp, SwiGLU)
    assert ranks[1].rank == pytest.approx(effective_rank(mlp.gate_up.weight[4:].detach()))
    values = torch.linalg.svdvals(mlp.gate_up.weight[4:].double())
    assert ranks[1].values == pytest.approx((values / values[0]).tolist())
    solver = make_solver()
    ranks = state_ranks(solver, problems=5, step=2)
    assert [(one.layer, one.name) for one in ranks] == [
        (0, "input"), *((layer, name) for layer in (1, 2) for name in ("z_H", "z_L"))
    ]  # fmt: skip
    assert all(one.kind == "states" and 1 < one.rank <= one.full == 16 for one in ranks)
    assert ranks != state_ranks(solver, problems=5, step=1)


def test_gpt_layers_have_two_matrices_and_loops_count_as_layers(make_solver):
    solver = make_solver("gpt", num_layers=2, loops=2)
    weights, ranks = weight_ranks(solver.predictor.model), state_ranks(solver, problems=4)
    places = [(layer, name) for layer in (1, 2) for name in ("up", "down")]
    assert [(one.layer, one.name) for one in weights] == places
    assert weights[0].full == 16
    blocks = [(block, "block") for block in (1, 2, 3, 4)]
    assert [(one.layer, one.name) for one in ranks] == [(0, "input"), *blocks]
