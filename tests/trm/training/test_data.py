import pickle
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import albumentations as A
import numpy as np
import pytest
import torch

from augment.symmetry import SYMMETRIES
from augment.transforms import CanvasShift, SampleTransform
from augment.views import possible_shifts
from canvas.addition import Addition
from canvas.canvas_size import Blanks
from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.problems import split_of
from canvas.sequences import IGNORE, from_sequences
from canvas.symbols import BLANK, END, MASK
from trm.cells.samples import CellInputSamples, SolutionSamples
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.training.auxiliary import AuxiliaryConfig
from trm.training.curriculum import Curriculum, Stage
from trm.training.data import Canvas, CanvasDataModule, EpochSampler
from trm.training.mixture import Mixture
from trm.training.negatives import NegativesConfig, SamplesWithNegatives
from trm.training.priming import PrimedProblems, Priming
from trm.training.samples import RowStepSamples, SequenceSamples, ValidationProblems

TASK = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 2))


def module(canvas: Canvas | None = None, task: Multiplication = TASK, **more) -> CanvasDataModule:
    settings = {"batch_size": 8, "batches_per_epoch": 4, "validation_problems": 10, "seed": 7}
    return CanvasDataModule(task, canvas or Canvas(), **(settings | more))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("inputs", "labels", "answer"))


EVERY = NegativesConfig(turned=0.2, guessed=0.2, digit=0.15, other=0.15, own=0.15)
TURNED = SampleTransform([A.D4(p=1.0), CanvasShift()])
LONG = PrimedProblems(TASK, Priming({"digits_a": [5, 6]}, 10, 0.5), seed=3)
OPTIONS = {
    "negatives": {"negatives": EVERY, "transform": TURNED},
    "auxiliary": {"auxiliary": AuxiliaryConfig({"carry": 1.0}), "transform": TURNED},
    "primed": {"mixture": Mixture(primed=LONG)},
    "blanks": {"blanks": Blanks(1, 2)},
}
ORDERED = [(RowStepSamples, name) for name in ("", "auxiliary", "primed", "blanks")]
ORDERED += [(SamplesWithNegatives, "negatives")]
ORDERED += [(SequenceSamples, name) for name in ("", "primed", "blanks")]


@pytest.mark.parametrize(("kind", "options"), ORDERED)
def test_samples_are_the_same_in_any_order_and_one_by_one(kind, options):
    data = kind(TASK, Canvas(12, 12), "train", 7, 48, 24, **OPTIONS.get(options, {}))
    batch, backwards = (data.__getitems__(order) for order in (range(24), range(23, -1, -1)))
    alone = [data.__getitems__([i]) for i in range(24)]
    assert options != "negatives" or {"correct", "above"} < set(batch)
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(backwards[name].flip(0), value)
            assert torch.equal(torch.cat([one[name] for one in alone]), value)


def test_solved_problems_are_the_same_one_by_one():
    solved = ValidationProblems(TASK, Canvas(margin=2), "validation", 7, 12, 4)
    _, together = solved.__getitems__(range(12))
    alone = [solved.__getitems__([i])[1].truth for i in range(12)]
    assert (together.truth == np.concatenate(alone)).all()


def test_a_worker_draws_the_same_batches_from_what_it_is_sent():
    """macOS and Windows start workers by spawn, to which all settings are sent."""
    more = {"transforms": [A.D4(p=1.0), CanvasShift()], "batches_per_epoch": 2}
    more["curriculum"] = [Stage(until=1, task={"digits_b": [1, 1]})]
    square = Canvas(square=True)
    here, loader = (module(square, **more).train_dataloader() for _ in range(2))
    sent = ForkingPickler.dumps((loader.dataset, loader.collate_fn, loader.worker_init_fn))
    dataset, collate, _ = pickle.loads(sent)
    there = [collate(dataset.__getitems__(list(indices))) for indices in loader.batch_sampler]
    here = list(here)
    assert len(there) == len(here) == 2
    assert all(same(*pair) for pair in zip(there, here, strict=True))


STANDARD = Multiplication("standard", digits_a=(1, 3), digits_b=(1, 2))


def test_training_validation_and_test_hold_pairs_of_their_own():
    data = RowStepSamples(TASK, Canvas(), "train", 7, 64, 64)
    for epoch in (0, 1, 5):
        problems, _, _, keys = data.draw_batch(range(64 * epoch, 64 * (epoch + 1)))
        assert keys.epoch == epoch
        assert (split_of(problems) == 0).all()
    for split, loader in ((1, module().val_dataloader()[0]), (2, module().test_dataloader())):
        batches = list(loader)
        assert sum(len(problems) for problems, _ in batches) == 10
        for problems, drawing in batches:
            assert (split_of(problems) == split).all()
            assert len(drawing) == len(problems)


def test_epochs_differ_and_devices_share_a_batch():
    loader = module().train_dataloader()
    first = next(iter(loader))
    assert same(first, next(iter(loader)))
    loader.sampler.set_epoch(1)
    assert not same(first, next(iter(loader)))
    data = module()
    data.trainer = SimpleNamespace(world_size=3, global_rank=0, lightning_module=None)
    with pytest.raises(ValueError, match=r"data\.batch_size 8 .* 3 devices"):
        data.train_dataloader()
    data.trainer = SimpleNamespace(world_size=2, global_rank=1, lightning_module=None)
    batches = list(data.train_dataloader())
    assert [len(batch["inputs"]) for batch in batches] == [4, 4, 4, 4]


def test_a_cut_canvas_exceeds_its_longest_problem_by_the_margin():
    data = RowStepSamples(TASK, Canvas(margin=2), "train", 0, 4 * 40, 4)
    spare = set()
    for start in range(0, 160, 4):
        indices = range(start, start + 4)
        problems, drawing, *_ = data.draw_batch(indices)
        rows, columns = TASK.canvas_layout.room(problems.lengths.max(axis=0).tolist(), TASK.base)
        height, width = drawing.truth.shape[1:]
        assert data.__getitems__(indices)["inputs"].shape == (4, height, width)
        spare |= {("rows", height - rows), ("columns", width - columns)}
    assert spare == {(side, n) for side in ("rows", "columns") for n in (0, 1, 2)}


def test_transforms_move_inputs_labels_and_answers_together():
    data = module(Canvas(12, 12), STANDARD, transforms=[A.D4(p=1.0), CanvasShift()])
    assert data.state_dict()["symmetries"] == list(SYMMETRIES)
    of = (STANDARD, Canvas(12, 12), "train", 7, 32, 32)
    plain = RowStepSamples(*of).__getitems__(range(8))
    turned = RowStepSamples(*of, transform=data.transform).__getitems__(range(8))
    assert not torch.equal(turned["labels"], plain["labels"])
    types = [turned[name].dtype for name in ("inputs", "labels", "answer")]
    assert types == [torch.uint8, torch.uint8, torch.bool]
    for i in range(8):
        cells = (
            torch.stack([batch[name][i].flatten() for name in ("labels", "inputs", "answer")]).T
            for batch in (plain, turned)
        )
        before, after = (sorted(map(tuple, one.tolist())) for one in cells)
        assert before == after


def test_a_batch_larger_than_the_memory_is_refused(monkeypatch):
    data = module(Canvas(10, 12), STANDARD, batch_size=1_000_000)
    monkeypatch.setattr("trm.training.data.host_memory", lambda: 10**9)
    for kind in (RowStepSamples, SequenceSamples, CellInputSamples):
        with pytest.raises(ValueError, match=r"batch_size 1,000,000 .* machine has 1 GB"):
            data.check_memory(SimpleNamespace(samples_class=kind))
    module(Canvas(10, 12), STANDARD, batch_size=10_000).check_memory(None)
    monkeypatch.setattr("trm.training.data.host_memory", lambda: None)  # as on Windows
    data.check_memory(None)


def test_large_batches_may_have_stages_by_share_of_the_run():
    stages = [Stage(0.5, {"digits_a": [1, 1]})]
    data = module(Canvas(10, 12), STANDARD, batch_size=10_000, curriculum=stages)
    data.check_memory(None, epochs=4)
    with pytest.raises(ValueError, match=r"not known: set trainer\.max_epochs"):
        data.check_memory(None, epochs=-1)


def test_quarter_turns_need_a_square_canvas():
    for canvas in (Canvas(8, 11), Canvas()):
        with pytest.raises(ValueError, match="equal height and width, or square: true"):
            module(canvas, transforms=[A.D4(p=1.0)])
    module(Canvas(square=True), transforms=[A.D4(p=1.0)])
    module(Canvas(8, 11), transforms=[A.HorizontalFlip()])


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_devices_share_an_epoch_without_an_index_twice(ranks):
    data = ValidationProblems(TASK, Canvas(), "validation", 0, 10, 10)
    samplers = [EpochSampler(data, ranks, rank) for rank in range(ranks)]
    for epoch in (0, 2):
        drawn: list[int] = []
        for sampler in samplers:
            sampler.set_epoch(epoch)
            drawn += (share := list(sampler))
            assert len(sampler) == len(share)
        assert sorted(drawn) == [*range(10 * epoch, 10 * epoch + 10)]


@pytest.mark.parametrize("layout", ["standard", "accumulate", "lattice"])
def test_the_offset_does_not_reveal_the_length_of_the_product(layout):
    task = Multiplication(layout, digits_a=(3, 3), digits_b=(2, 2))
    for data in (
        RowStepSamples(task, Canvas(9, 6), "train", 0, 2000, 2000).draw_batch(range(2000)),
        ValidationProblems(task, Canvas(9, 6), "validation", 0, 2000, 2000).__getitems__(
            range(2000)
        ),
    ):
        problems, drawing = data[0], data[1]
        products = np.array([task.answer(pair) for pair in problems.to_ints()])
        right = drawing.left + drawing.widths
        long = [(products[right == end] >= 10**4).mean() for end in np.unique(right)]
        assert max(long) - min(long) < 0.1  # 0.9 where the place tells


@pytest.mark.parametrize("canvas", [Canvas(), Canvas(12, 14), Canvas(square=True)])
def test_a_sample_without_its_blank_lines_is_a_worked_solution(canvas):
    data = RowStepSamples(STANDARD, canvas, "train", 7, 160, 16, blanks=Blanks(2, 3))
    sizes = set()
    for start in range(0, 160, 16):
        indices = range(start, start + 16)
        _, drawing, inserted, *_ = data.draw_batch(indices)
        batch = data.__getitems__(indices)
        inputs, labels = batch["inputs"].numpy(), batch["labels"].numpy()
        answer = batch["answer"].numpy()
        assert ((inputs == MASK) == answer).all()
        assert (inputs[~answer] == labels[~answer]).all()
        assert (answer.sum(axis=2).max(axis=1) == answer.shape[2]).all()  # the full row
        if canvas.height:
            assert inputs.shape[1:] == (12, 14)
        if canvas.square:
            assert inputs.shape[1] == inputs.shape[2]
        rows, columns = inserted.rows >= 0, inserted.columns >= 0
        sizes.add(((~rows[0]).sum(), (~columns[0]).sum()))
        old = (16, *drawing.canvases.shape[1:])
        kept = rows[:, :, None] & columns[:, None]
        step = answer.any(axis=2).argmax(axis=1)
        step = inserted.rows[np.arange(16), step] - drawing.canvas_row(0)
        expected = row_steps(drawing)
        for i in range(16):
            chosen = (expected.problem == i) & (expected.step == step[i])
            assert (labels[i][kept[i]].reshape(old[1:]) == expected.labels[chosen][0]).all()
    assert len(sizes) > 5


def test_a_sequence_writes_blank_columns_and_learns_no_blank_row():
    data = SequenceSamples(STANDARD, Canvas(12, 14), "train", 7, 320, 32, blanks=Blanks(2, 2))
    blank_columns = 0
    for start in range(0, 320, 32):
        indices = range(start, start + 32)
        _, drawing, inserted, *_ = data.draw_batch(indices)
        batch = data.__getitems__(indices)
        height, width = batch["height"], batch["width"]
        shape = (32, height, width + 1)
        labels = batch["labels"].numpy()[:, :-1].reshape(shape)[:, :, :width][:, :, ::-1]
        truth = inserted(drawing.truth, BLANK)
        counted = labels >= 0
        assert (labels[counted] == truth[counted]).all()
        assert not counted[inserted.rows < 0].any()
        written = np.arange(height) >= inserted.row(drawing.canvas_row(0))[:, None]
        written &= inserted.rows >= 0
        assert (counted == written[:, :, None]).all()
        blank_columns += counted.transpose(0, 2, 1)[inserted.columns < 0].any(axis=1).sum()
    assert blank_columns > 50


@pytest.mark.parametrize("blanks", [Blanks(), Blanks(2, 2)])
def test_a_shifted_sequence_is_that_of_a_canvas_with_that_offset(blanks):
    of = (STANDARD, Canvas(12, 14), "train", 7, 64, 64)
    shifted = SequenceSamples(*of, transform=SampleTransform([CanvasShift()]), blanks=blanks)
    plain, moved = SequenceSamples(*of, blanks=blanks), shifted.__getitems__(range(64))
    (_, drawing, inserted, *_), before = plain.draw_batch(range(64)), plain.__getitems__(range(64))
    height, width = before["height"], before["width"]
    assert (moved["height"], moved["width"]) == (height, width)
    space = inserted(drawing.space, False)
    truth = from_sequences(before["ids"].numpy(), height, width)
    places = set()
    for i, canvas in enumerate(from_sequences(moved["ids"].numpy(), height, width)):
        # Every shift that keeps the solution's space on the canvas; one of them was drawn.
        up, down, left, right = possible_shifts(space[i][None])[:, 0].tolist()
        shifts = [(j, k) for j in range(-up, down + 1) for k in range(-left, right + 1)]
        fits = [one for one in shifts if (np.roll(truth[i], one, (0, 1)) == canvas).all()]
        assert len(fits) == 1
        places.add(fits[0])
        # Rows are reversed: to the right on a canvas is to the left in a sequence.
        grid = moved["ids"][i, 1:].numpy().reshape(height, width + 1)
        assert (grid[:, :width] == canvas[:, ::-1]).all()
        labels = moved["labels"][i, :-1].numpy().reshape(height, width + 1)[:, :width]
        counted = np.arange(height) >= inserted.row(drawing.canvas_row(0))[i] + fits[0][0]
        counted &= np.roll(inserted.rows[i] >= 0, fits[0][0])
        assert (labels[~counted] == IGNORE).all()
        assert (labels[counted] == canvas[:, ::-1][counted]).all()
        assert moved["labels"][i, -1] == END
    assert len(places) > 5
    same = SequenceSamples(*of, transform=SampleTransform([CanvasShift(p=0)]), blanks=blanks)
    for name in ("ids", "labels"):
        assert torch.equal(same.__getitems__(range(64))[name], before[name])


def test_a_sequence_that_is_turned_now_and_then_is_refused():
    rare = SampleTransform([A.HorizontalFlip(p=0.01)])
    data = SequenceSamples(STANDARD, Canvas(12, 14), "train", 7, 640, 640, transform=rare)
    with pytest.raises(ValueError, match=r"use only augment\.transforms\.CanvasShift"):
        data.__getitems__(range(640))


@pytest.mark.parametrize(("base", "different"), [(2, 11), (10, 299)])
def test_a_run_notes_how_few_validation_problems_are_distinct(base, different, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("trm.training.data.rank_zero_info", lines.append)
    lengths = {"digits_a": (1, 4), "digits_b": (1, 4), "smallest": 0, "long_bias": 1.0}
    made = module(task=Multiplication("accumulate", base, **lengths), validation_problems=300)
    made.setup("fit")
    assert made.different_validation_problems == different
    assert ["only 11 of them are different" in line for line in lines] == [True] * (base == 2)


def beyond(task: object = STANDARD, canvas: Canvas | None = None, position: str = "relative_2d"):
    made = module(canvas, task, beyond_problems=6, training_problems=4)
    config = RecursiveConfig(hidden_size=16, position=position, height=4, width=5)
    network = SimpleNamespace(model=TinyRecursiveModel(config))
    alone = {"world_size": 1, "global_rank": 0, "max_epochs": 1}
    made.trainer = SimpleNamespace(**alone, lightning_module=network)
    return made


def test_longer_problems_have_twice_the_digits_and_are_held_out():
    made = beyond()
    made.setup("validate")
    assert list(made.groups) == ["validation"]
    made.setup("fit")
    assert list(made.groups) == ["validation", "training_problems", "beyond"]
    (problems, drawing), *others = made.val_dataloader()[2]
    assert (len(problems), others) == (6, [])
    assert (problems.lengths == [6, 4]).all()
    assert (split_of(problems) == 1).all()
    assert (drawing.truth == next(iter(made.val_dataloader()[2]))[1].truth).all()


@pytest.mark.parametrize(
    ("task", "canvas", "position", "worked_out"),
    [
        (STANDARD, Canvas(12, 12), "relative_2d", False),
        (STANDARD, Canvas(), "learned", False),  # for a canvas of 4 x 5
        (Multiplication(digits_a=(1, 20), digits_b=(1, 20)), None, "relative_2d", False),
        (Multiplication(digits_a=(1, 600), digits_b=(1, 1)), None, "relative_2d", False),
        (Addition("column", digits=(1, 5), addends=(2, 3)), None, "relative_2d", True),
    ],
)
def test_longer_problems_may_be_left_out(task, canvas, position, worked_out):
    lengths = tuple(2 * np.array(task.longest)) if worked_out else None
    assert beyond(task, canvas, position).longer() == lengths


# Stages of training

STAGED = Multiplication("lattice", digits_a=(1, 4), digits_b=(1, 3), long_bias=1.0)
STAGES = [
    Stage(2, {"digits_a": [1, 2], "digits_b": [1, 1]}),
    Stage(3, {"digits_a": [1, 3], "long_bias": 0.0}),
]


@pytest.mark.parametrize("kind", [RowStepSamples, SequenceSamples])
def test_samples_are_as_long_as_their_stage_allows(kind):
    mixture = Mixture(Curriculum(STAGED, STAGES))
    data = kind(STAGED, Canvas(), "train", 0, 64, 64, mixture=mixture)
    longest = [
        tuple(data.draw_batch(range(64 * epoch, 64 * epoch + 64))[0].lengths.max(axis=0).tolist())
        for epoch in range(5)
    ]
    assert longest == [(2, 1), (2, 1), (3, 3), (4, 3), (4, 3)]
    heights = [data.__getitems__(range(64 * epoch, 64 * epoch + 64)) for epoch in (0, 4)]
    small, large = (next(iter(batch.values())) for batch in heights)
    assert small[0].numel() < large[0].numel()


def test_validated_training_problems_are_the_first_drawn():
    data = module(task=STAGED, training_problems=16, curriculum=STAGES)
    data.stage = "fit"
    drawn = [pair for problems, _ in data.val_dataloader()[1] for pair in problems.to_ints()]
    mixture = Mixture(Curriculum(STAGED, STAGES))
    samples = RowStepSamples(STAGED, Canvas(), "train", 7, 16, 8, mixture=mixture)
    assert drawn == samples.draw_batch(range(16))[0].to_ints()


def test_a_curriculum_may_end_at_a_share_of_the_run():
    stages = Curriculum(STAGED, [Stage(0.5, dict(STAGES[0].task))])
    tasks = [stages.at(epoch, 4) for epoch in range(4)]
    assert tasks[:2] == [stages.stages[0][1]] * 2
    assert tasks[2:] == [STAGED] * 2
    data = module(task=STAGED, curriculum=[Stage(0.5, dict(STAGES[0].task))])
    data.trainer = SimpleNamespace(world_size=1, global_rank=0, lightning_module=None, max_epochs=9)
    assert data.train_dataloader().dataset.epochs == 9


@pytest.mark.parametrize("kind", [RowStepSamples, SequenceSamples, SolutionSamples])
def test_all_samples_come_from_a_pool_of_few_problems(kind):
    arguments = TASK, Canvas(9, 9), "train", 0, 64, 64
    known = kind(*arguments).draw_batch(range(7))[0].to_ints()
    pooled = kind(*arguments, mixture=Mixture(pool=7))
    batches = [pooled.draw_batch(range(64 * epoch, 64 * epoch + 64))[:2] for epoch in (0, 3)]
    for problems, drawing in batches:
        assert {*problems.to_ints()} == {*known}
        assert len({*map(bytes, drawing.truth)}) > 7, "each at other places"
    first, other = (problems.to_ints() for problems, _ in batches)
    assert first != other, "each epoch draws anew"
    assert pooled.draw_batch(range(32, 64))[0].to_ints() == first[32:]
