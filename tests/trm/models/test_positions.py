"""Position encodings and neighbourhoods, against their definitions."""

import itertools
import math

import pytest
import torch

from canvas import symbols
from trm.models.attention import Attention
from trm.models.configs import NEIGHBOURHOODS, POSITIONS
from trm.models.coordinates import Coordinates, neighbourhood_mask, relative_classes
from trm.models.position_biases import Relative2D
from trm.models.positions import Position, make_position


def make(name, **changes):
    sizes = {"hidden_size": 16, "num_heads": 2, "height": 4, "width": 5}
    return make_position(name, **(sizes | changes))


def test_prefix_tokens_come_first_and_are_marked():
    cells = Coordinates.canvas(2, 3, prefix_length=2)
    assert cells.rows.tolist() == [-1, -1, 0, 0, 0, 1, 1, 1]
    assert cells.columns.tolist() == [-1, -1, 0, 1, 2, 0, 1, 2]
    assert cells is Coordinates.canvas(2, 3, prefix_length=2)


@pytest.mark.parametrize("radius", [0, 2])
def test_a_neighbourhood_is_a_square_and_the_compass_lines(radius):
    cells = [(row, column) for row in range(5) for column in range(7)]
    mask = neighbourhood_mask(Coordinates.canvas(5, 7), "local_lines", radius)
    for (i, (row, column)), (j, (other, another)) in itertools.product(enumerate(cells), repeat=2):
        down, right = abs(other - row), abs(another - column)
        assert mask[i, j] == (max(down, right) <= radius or 0 in (down, right) or down == right)


def test_a_local_neighbourhood_is_a_square_alone():
    mask = neighbourhood_mask(Coordinates.canvas(4, 5), "local", 1)
    assert mask[0].nonzero().flatten().tolist() == [0, 1, 5, 6]
    assert mask[7].nonzero().flatten().tolist() == [1, 2, 3, 6, 7, 8, 11, 12, 13]


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS[1:])
def test_prefix_and_cells_always_see_each_other(neighbourhood):
    cells = Coordinates.canvas(6, 6, prefix_length=2)
    mask = neighbourhood_mask(cells, neighbourhood, 1, torch.ones(1, 38, dtype=torch.bool))
    assert mask[..., :2, :].all()
    assert mask[..., :, :2].all()
    assert not mask.all()


def test_the_horizon_is_the_last_written_cell_in_each_direction():
    size, written = (6, 7), torch.rand(42, generator=torch.Generator().manual_seed(1)) < 0.4
    cells = list(itertools.product(range(size[0]), range(size[1])))
    near = torch.tensor([[abs(a - c) < 2 and abs(b - d) < 2 for c, d in cells] for a, b in cells])
    seen = neighbourhood_mask(Coordinates.canvas(*size), "local_farthest", 1, written[None])[0]
    for row, column in itertools.product(range(size[0]), range(size[1])):
        expected = near[row * size[1] + column].clone()
        for down, right in itertools.product((-1, 0, 1), repeat=2):
            line = [(row + k * down, column + k * right) for k in range(1, 8)]
            on_canvas = [r * size[1] + c for r, c in line if 0 <= r < size[0] and 0 <= c < size[1]]
            there = [cell for cell in on_canvas if written[cell]]
            if (down, right) != (0, 0) and there:
                expected[there[-1]] = True
        assert torch.equal(seen[row * size[1] + column], expected)


def test_selected_cells_keep_their_places_and_padding_is_masked():
    cells = Coordinates.canvas(2, 3, prefix_length=1)
    kept = torch.tensor([[False, True, False, False, False, True], [True] + [False] * 5])
    some = cells.only(kept)
    assert some.index[0].tolist() == [0, 2, 6]
    assert some.index[1, :2].tolist() == [0, 1]
    assert some.rows[0].tolist() == [-1, 0, 1]
    assert some.columns[0].tolist() == [-1, 1, 2]
    assert some.present.tolist() == [[True] * 3, [True, True, False]]
    assert len(some) == 3
    for neighbourhood in ("all", "local_lines"):
        mask = neighbourhood_mask(some, neighbourhood, 2)
        assert mask[0].all()
        assert mask[1].tolist() == [[True, True, False]] * 2 + [[True, True, True]]


def test_relative_classes_are_exact_near_and_directions_beyond():
    radius, cells = 2, Coordinates.canvas(9, 9, prefix_length=1)
    classes = relative_classes(cells, radius)[1:, 1:]
    by_offset, members = {}, {}
    for i, j in itertools.product(range(81), repeat=2):
        offset = (j // 9 - i // 9, j % 9 - i % 9)
        assert by_offset.setdefault(offset, int(classes[i, j])) == int(classes[i, j])
        members.setdefault(int(classes[i, j]), set()).add(offset)
    near = {o for o in by_offset if max(map(abs, o)) <= radius}
    assert all(members[by_offset[offset]] == {offset} for offset in near)
    far = set(by_offset.values()) - {by_offset[offset] for offset in near}
    assert len(far) == 16

    def direction(offset):
        down, right = offset
        octant = (abs(down) > abs(right)) - (abs(down) < abs(right))
        straight = 0 in offset
        return (down > 0) - (down < 0), (right > 0) - (right < 0), 0 if straight else octant

    for number in far:
        assert len({direction(offset) for offset in members[number]}) == 1
    table = Relative2D(1, radius).weight
    used = relative_classes(Coordinates.canvas(9, 9, prefix_length=2), radius).unique()
    assert used.tolist() == [*range(table.shape[1])]


def test_randomised_sinusoids_use_a_sorted_choice_of_positions():
    randomised = make("randomised", position_range=100)
    table = make("sinusoidal").vectors(Coordinates.canvas(1, 100))

    def drawn(generator=None):
        vectors = randomised.vectors(Coordinates.canvas(4, 5), generator)
        chosen = (vectors[:, None] - table).abs().sum(-1).min(dim=1)
        assert chosen.values.max() < 1e-4
        assert (chosen.indices.diff() > 0).all()
        return chosen.indices.tolist()

    generator = torch.Generator().manual_seed(1)
    assert drawn(generator) != drawn(generator)
    torch.manual_seed(7)  # the fixed choice has nothing to do with the global seed
    fixed = drawn()
    torch.manual_seed(8)
    assert drawn() == fixed
    assert len({number for _ in range(60) for number in drawn(generator)}) == 100


def test_slopes_of_alibi_halve_from_head_to_head():
    bias = make("alibi", num_heads=8).bias(Coordinates.canvas(2, 3, prefix_length=1))
    assert bias.shape == (8, 7, 7)
    assert bias[:, 6, 2].tolist() == [-4 * 2.0**-head for head in range(1, 9)]
    assert bias[0, 3].tolist() == [-1.5, -1.0, -0.5, 0.0, -0.5, -1.0, -1.5]
    bias = make("alibi", num_heads=4).bias(Coordinates.canvas(1, 2))
    assert bias[:, 1, 0].tolist() == [-(2.0 ** (-2 * head)) for head in range(1, 5)]


def test_fire_is_a_function_of_the_relative_distance():
    """Against the formula of the paper, worked out pair by pair."""
    position = make("fire", num_heads=3)
    position.threshold.data.fill_(4.0)
    bias = position.bias(Coordinates.canvas(2, 5, prefix_length=1))
    assert bias.shape == (3, 11, 11)

    def squeezed(x: float) -> float:
        return math.log(position.slope.item() * x + 1)

    weights = position.inner.weight[:, 0], position.outer.weight
    for i, j in [(0, 0), (3, 1), (1, 3), (10, 0), (10, 9)]:
        x = squeezed(abs(i - j)) / squeezed(max(4.0, i, j))
        assert 0 <= x <= 1
        torch.testing.assert_close(bias[:, i, j], weights[1] @ (weights[0] * x).clamp(min=0))


@pytest.mark.parametrize("name", POSITIONS)
def test_a_position_accepts_the_canvases_that_it_serves(name):
    position = make(name, position_range=24)
    for size in [(4, 5), (3, 5), (2, 2), (5, 5), (4, 6)]:
        cells = Coordinates.canvas(*size)
        if position.accepts(cells):
            position.vectors(cells)
    assert position.accepts(Coordinates.canvas(4, 5))


def test_a_bias_first_built_under_inference_mode_still_trains():
    position = Relative2D(2)
    cells = Coordinates.canvas(3, 11)
    with torch.inference_mode():
        position.terms(cells, torch.float32, neighbourhood_mask(cells, "local_lines", 2))
    allowed = neighbourhood_mask(cells, "local_lines", 2)
    bias = position.terms(cells, torch.float32, allowed).bias
    bias[bias.isfinite()].sum().backward()
    assert position.weight.grad is not None


def test_with_a_compass_each_head_begins_with_one_direction():
    cells = Coordinates.canvas(9, 9)
    bias = Relative2D(num_heads=8, radius=2, bias_scale=3.0, direction_bias=4.0).bias(cells)
    from_the_middle = bias[:, 40].reshape(8, 9, 9)
    clockwise = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]
    for head, (down, right) in enumerate(clockwise):
        expected = torch.zeros(9, 9)
        for distance in range(1, 5):
            expected[4 + distance * down, 4 + distance * right] = 4.0
        torch.testing.assert_close(from_the_middle[head].detach(), expected)


@pytest.mark.parametrize("name", ["shaw", "deberta"])
def test_relative_terms_are_those_of_the_clipped_distance(name):
    """Against equation 4 of Shaw et al. 2018 and of He et al. 2021, pair by pair."""
    position = make(name, max_distance=2)
    cells = Coordinates.canvas(2, 3, prefix_length=1)
    attention = Attention(16, 2)
    x = torch.randn(3, 7, 16)
    q, k, v = attention.project(x)
    scores = torch.empty(3, 2, 7, 7)
    for i, j in itertools.product(range(7), repeat=2):
        distance = min(max(j - i, -2), 2) + 2
        key, query = k[:, :, j], q[:, :, i]
        score = (query * (key + position.weight[distance])).sum(-1)
        if name == "deberta":
            score = score + (position.queries[distance] * key).sum(-1)
        scores[:, :, i, j] = score / math.sqrt(8)
    for causal in (False, True):
        if causal:
            scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -math.inf)
        y = scores.softmax(-1) @ v
        expected = attention.out(y.transpose(1, 2).flatten(2))
        found = attention(x, position.terms(cells, x.dtype), causal=causal)
        torch.testing.assert_close(found, expected)


def test_shaw_is_the_first_of_both_terms_bit_for_bit():
    shaw, both = make("shaw"), make("deberta")
    both.load_state_dict({**shaw.state_dict(), "queries": torch.zeros(33, 8)})
    cells, (q, k) = Coordinates.canvas(2, 3), torch.randn(2, 3, 2, 6, 8)
    first, sum_of_both = (part.relative_keys(cells).scores(q, k) for part in (shaw, both))
    assert torch.equal(first, sum_of_both)


@pytest.mark.parametrize("causal", [True, False])
def test_buckets_of_t5_grow_with_the_distance(causal):
    """Against the definition: exact up to half of the buckets, then logarithmic up to 128."""
    position, count = make("t5", causal=causal), 32 if causal else 16
    assert position.weight.shape == (2, 32)
    found = position.buckets(torch.arange(-300, 301)).tolist()
    exact = count // 2
    for bucket, offset in zip(found, range(-300, 301), strict=True):
        distance = max(-offset, 0) if causal else abs(offset)
        expected = distance
        if distance >= exact:
            share = math.log(distance / exact) / math.log(128 / exact)
            # A bucket that begins at a whole distance has it.
            expected = min(exact + math.floor(share * (count - exact) + 1e-9), count - 1)
        assert bucket == expected + (16 if offset > 0 and not causal else 0)
    assert {*found} == {*range(32)} - (set() if causal else {16})  # no positive distance is 0


def test_the_bias_of_t5_is_that_of_the_bucket():
    position = make("t5", num_heads=3, bias_scale=2.0)
    torch.nn.init.normal_(position.weight)
    bias = position.bias(Coordinates.canvas(4, 5, prefix_length=1))
    assert bias.shape == (3, 21, 21)
    for query, key, bucket in [(5, 5, 0), (5, 2, 3), (2, 5, 19), (20, 4, 10), (0, 20, 26)]:
        torch.testing.assert_close(bias[:, query, key], 2 * position.weight[:, bucket])


def test_abacus_counts_digits_and_shifts_them_by_an_offset():
    position = make("abacus", max_digits=9)
    ids = torch.from_numpy(symbols.encode("^123__4*98#7#^").astype("int64"))[None]
    places = [0, 1, 2, 3, 0, 0, 1, 0, 1, 2, 0, 1, 0, 0]
    vectors = position.token_vectors(ids)[0]
    for vector, place in zip(vectors, places, strict=True):
        assert torch.equal(vector, position.weight[place - 1] if place else torch.zeros(16))
    # What a token is given depends on none after it.
    assert torch.equal(position.token_vectors(ids[:, :7])[0], vectors[:7])
    position, digits = make("abacus", max_digits=5), symbols.encode("123_4").astype("int64")
    ids = torch.from_numpy(digits)[None].repeat(2, 1)
    generator, drawn = torch.Generator().manual_seed(0), set()
    for _ in range(40):
        vectors = position.token_vectors(ids, generator)
        assert torch.equal(vectors[0], vectors[1])
        offset = [torch.equal(vectors[0, 0], row) for row in position.weight].index(True)
        assert torch.equal(vectors[0, 2], position.weight[offset + 2])
        assert torch.equal(vectors[0, 4], vectors[0, 0])
        drawn.add(offset)
    assert drawn == {0, 1, 2}


def test_vectors_of_ones_own_need_no_generator():
    class Plain(Position):
        def vectors(self, cells):
            return torch.ones(len(cells.rows), 8)

        def token_vectors(self, ids):
            return torch.ones(*ids.shape, 8)

    class Drawn(Position):
        def vectors(self, cells, generator=None):
            return torch.full((len(cells.rows), 8), float(generator is not None))

    cells, generator = Coordinates.canvas(2, 3), torch.Generator()
    for given in (None, generator):
        plain = Plain().terms(cells, torch.float32, generator=given)[0]
        assert torch.equal(plain, torch.ones(6, 8))
        assert Plain().token_vectors(torch.zeros(2, 3).long(), given).shape == (2, 3, 8)
        drawn = Drawn().terms(cells, torch.float32, generator=given)[0]
        assert torch.equal(drawn, torch.full((6, 8), float(given is not None)))
