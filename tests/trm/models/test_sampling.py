import torch

from trm.models.sampling import Sampler


def generators(seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def drawn(logits, temperature, top_k=None):
    sampler = Sampler(temperature, top_k, generators(range(len(logits))))
    sampler.next_token(torch.ones(len(logits), dtype=torch.bool), logits.shape[1])
    return sampler(logits)


def test_tokens_are_drawn_with_the_softmax_of_the_cooled_logits():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    shares = drawn(logits.expand(4000, -1), 2.0).bincount(minlength=4) / 4000
    torch.testing.assert_close(shares, (logits / 2).softmax(dim=0), atol=0.03, rtol=0)


def test_only_the_likeliest_tokens_are_drawn():
    logits = torch.tensor([0.3, 0.2, 0.1, 0.0]).expand(500, -1)
    assert set(drawn(logits, 1.0, 2).tolist()) == {0, 1}
    assert set(drawn(logits, 1.0, 1).tolist()) == {0}
    assert set(drawn(logits, 1e-3).tolist()) == {0}


def test_draws_of_a_sample_ignore_the_other_samples():
    alone, beside = Sampler(1.0, None, generators([5])), Sampler(1.0, None, generators([4, 5]))
    for writes in ([True, True], [True, False], [False, True], [True, True]):
        beside.next_token(torch.tensor(writes), 6)
        if writes[1]:
            alone.next_token(torch.tensor([True]), 6)
            assert torch.equal(alone.words[0], beside.words[1])
