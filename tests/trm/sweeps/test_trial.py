import pytest

from trm.sweeps.trial import parameters_of, try_out


@pytest.fixture
def words(repository) -> list[str]:
    return [f"--config={repository / 'configs/debug.yaml'}"]


def test_a_trial_tells_what_a_run_takes_and_leaves_nothing(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trial = try_out(words)
    assert trial.parameters == parameters_of(words) == 5818
    assert (trial.steps, trial.epochs, trial.samples) == (10, 2, 16)
    assert trial.flops > 1e7
    assert trial.seconds > 0
    assert not list(tmp_path.iterdir())


def test_a_wider_model_takes_more_operations_on_the_same_batches(words):
    wider = try_out([*words, "--model.network.config.intermediate_size=64"])
    assert 1 < wider.flops / try_out(words).flops < 2


def test_accumulated_batches_are_one_step(words):
    once, twice = try_out(words), try_out([*words, "--trainer.accumulate_grad_batches=2"])
    assert (twice.steps, twice.samples) == (6, 32)
    assert twice.flops == pytest.approx(2 * once.flops)


def test_a_run_of_few_steps_can_be_tried_out(words):
    trial = try_out([*words, "--trainer.max_epochs=1", "--data.batches_per_epoch=1"])
    assert trial.steps == 1
    assert trial.seconds > 0


def test_steps_may_end_a_run(words):
    trial = try_out([*words, "--trainer.max_steps=3"])
    assert (trial.steps, trial.epochs) == (3, None)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--model.network.config.hiden_size=8", "Did you mean model.network.config.hidden_size"),
        ("--data.task.base=99", "base"),
        ("--trainer.max_epochs=-1", "the run has no end"),
    ],
)
def test_what_is_wrong_with_a_setting_is_told(words, word, told):
    with pytest.raises(ValueError, match=told):
        try_out([*words, word])
