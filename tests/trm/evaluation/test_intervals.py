import math

import pytest

from trm.evaluation.intervals import Share, difference


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [  # roots of (p - share)^2 = z^2 p (1 - p) / n, worked out by hand or from Newcombe 1998
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(right, total, low, high):
    assert Share(right, total).interval == pytest.approx((low, high), abs=1e-4)


def test_the_ends_of_the_interval_solve_wilsons_equation():
    share = Share(37, 50)
    for p in share.interval:
        assert (p - share.value) ** 2 == pytest.approx(1.96**2 * p * (1 - p) / 50)


def test_the_interval_holds_the_share_and_stays_within_0_and_1():
    for total in (1, 2, 7, 1000):
        for right in {0, 1, total // 2, total}:
            low, high = Share(right, total).interval
            assert 0 <= low <= right / total <= high <= 1


def test_more_problems_make_a_narrower_interval():
    widths = [high - low for low, high in (Share(n * 9, n * 10).interval for n in (1, 10, 100))]
    assert widths == sorted(widths, reverse=True)


def test_of_nothing_nothing_is_known():
    share = Share(0, 0)
    assert math.isnan(share.value)
    assert share.interval == (0.0, 1.0)
    assert str(share) == "none"


def test_a_share_is_written_with_its_numbers_and_interval():
    assert str(Share(5, 10)) == "50.0 % (5 of 10; 95 % interval 23.7 to 76.3 %)"


@pytest.mark.parametrize(("right", "total"), [(3, 2), (-1, 2), (0, -1)])
def test_more_right_than_there_are_is_no_share(right, total):
    with pytest.raises(ValueError, match="is not a share"):
        Share(right, total)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [  # Newcombe 1998, table II, method 10
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_the_interval_of_a_difference_is_newcombes(one, other, low, high):
    assert difference(Share(*one), Share(*other)) == pytest.approx((low, high), abs=1e-4)
    assert difference(Share(*other), Share(*one)) == pytest.approx((-high, -low), abs=1e-4)
