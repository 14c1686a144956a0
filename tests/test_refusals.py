"""Impossible settings are refused in a sentence that names them, before anything is computed."""

import math
from dataclasses import replace

import albumentations as A
import numpy as np
import pytest
import torch
from drawings import drawn
from tables import correct_table

from augment import symmetry
from augment.transforms import CanvasShift, SampleTransform
from canvas import arithmetic, picture, symbols
from canvas.addition import Addition
from canvas.arithmetic import Numbers
from canvas.canvas_size import Blanks, Canvas
from canvas.mazes import Maze
from canvas.modular import Modular
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm import batch, evaluate, load_solver, render, run_with_cache, solve
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.cells.proof.smt import to_smt
from trm.evaluation.statistics import Share, risk_coverage
from trm.extras import sharing
from trm.extras.analysis.probe import fit
from trm.extras.analysis.rasp import MaskedCanvases
from trm.extras.analysis.rasp_programs import write_row
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.positions import make_position
from trm.models.recursive import TinyRecursiveModel
from trm.runtime.devices import open_devices
from trm.solving.calibration import Calibration, fit_calibration
from trm.solving.families import family_of
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.solving.voting import Voting
from trm.solving.watching import solve_watched
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.curriculum import Curriculum, Stage
from trm.training.data import CanvasDataModule
from trm.training.iterative_module import IterativeModule
from trm.training.negatives import NegativesConfig
from trm.training.priming import Priming
from trm.training.step import DepthConfig, DepthStage

OBLONG = np.full((1, 6, 4), symbols.BLANK, dtype=np.uint8)
D4 = {"transforms": [A.D4(p=1.0)], "canvas": Canvas(square=True)}
LONG = {"digits_a": [6, 7], "digits_b": [2, 2]}
SLANTED = A.Rotate(limit=(30, 40), p=1.0)
UP_TO = {"hidden_size": 16, "num_heads": 2}
PLACED = {"num_prefixes": 1, "prefix_length": 1, "prefix_size": 17}
TASK = Multiplication("lattice", digits_a=(1, 4), digits_b=(1, 3))
BITS, ONES = replace(TASK, base=2), {"digits_a": [1, 1], "digits_b": [1, 1]}
CELL = rule_settings(TASK.local_rule())
CARRIED = Addition("column_carries", digits=(1, 3), addends=(2, 4))
MANY = "+".join(["5"] * 101)
PAGE = symbols.encode("1.")[None, None]
ONE = Problems.from_ints([(1, 1)])
START = torch.full((1, 1), symbols.START)
READER = GPT(GPTConfig(4, 5, **UP_TO, num_layers=1))
RECURSIVE = TinyRecursiveModel(RecursiveConfig(4, 5, **UP_TO, position="learned"))
WALK, WRITER = IterativePredictor(RECURSIVE, 1), GPTPredictor(READER, Calibration())


def voting(predictor, **how: object) -> Solver:
    return Solver(predictor, TASK, Canvas(4, 5)).with_voting(Voting(2, **how))


def carrying(solve_steps: int = 16, **tokens: bool) -> IterativeModule:
    network = TinyRecursiveModel(RecursiveConfig(**UP_TO, **tokens))
    how = {"optimizer": OptimizerConfig(), "schedule": ScheduleConfig()}
    return IterativeModule(network, depth=DepthConfig("carry"), solve_steps=solve_steps, **how)


def module(**how: str) -> IterativeModule:
    parts = {"optimizer": OptimizerConfig(), "schedule": ScheduleConfig(), "depth": DepthConfig()}
    return IterativeModule(RECURSIVE, **parts, **how)


def data(canvas: Canvas | None = None, **more) -> CanvasDataModule:
    return CanvasDataModule(TASK, canvas or Canvas(), **more)


def negatives(how: dict, **shares: float) -> CanvasDataModule:
    return data(**how, negatives=NegativesConfig(**shares))


def cycles(*stages: dict) -> DepthConfig:
    return DepthConfig(stages=[DepthStage(**stage) for stage in stages])


def staged(*stages: tuple[int, dict], task: Multiplication = TASK) -> Curriculum:
    return Curriculum(task, [Stage(*stage) for stage in stages])


CASES = {
    "symmetries and views": [
        (lambda: symmetry.apply("r45", np.zeros((2, 2))), r"must be .*r270.*'r45'"),
        (lambda: SampleTransform([SLANTED]), "Rotate changed the symbols of a canvas"),
    ],
    "symbols and numbers": [
        *(
            (lambda text=text: symbols.encode(text), "is not a canvas symbol; the symbols are")
            for text in ("12é3", "1 2", "1×2", "٣", "\n")
        ),
        *(
            (lambda text=text: arithmetic.parse(text), "whole number.*with the digits 0123456789")
            for text in ("", "  ", "-1", "-0", "+1", "1.5", "1e3", "1_0", "٣", "1 2")
        ),
        (lambda: arithmetic.parse("12", base=2), "'12' is not a .* from 0 up in base 2; .* 01 "),
        (lambda: Numbers.from_ints([1, -3]), "whole numbers from 0 up, got -3"),
    ],
    "canvases": [
        (lambda: Canvas(height=4), "both a height and a width, or neither"),
        (lambda: Canvas(margin=-1), "a margin is 0 cells or more, not -1"),
        (lambda: Canvas(5, 5).check(CARRIED), r"a canvas of at least 6 x 5 \(height x width\)"),
        (lambda: Canvas(6, 4).check(CARRIED), r"a canvas of at least 6 x 5 \(height x width\)"),
        (lambda: drawn("standard", [(321, 654)], 7, 20, top=2, left=3), "at least 8 x 9"),
        (lambda: Canvas().check(Addition(digits=(1, 1000), addends=(2, 20))), "12,000 cells"),
        (lambda: Canvas().check(replace(CARRIED, base=2)), "at most 2 addends in base 2, not 4"),
        (lambda: picture.to_figure(OBLONG[:, 0].repeat(25_000, axis=1)), "2,400,024 x 48 pixels"),
    ],
    "tasks": [
        (lambda: Multiplication(digits_a=(0, 3)), r"digits_a is \[fewest, most\] from 1 to 4096"),
        (lambda: Addition(digits=(1, 2, 3)), r"digits is \[fewest, most\] from 1 to 4096, not"),
        (lambda: Addition(addends=(1, 2)), r"addends is \[fewest, most\] from 2 to 100, not"),
        (lambda: Multiplication(base=17), "the base is 2 to 16, not 17"),
        (lambda: Modular(base=10), "products modulo p are in base 2, not 10: set base to 2"),
        (lambda: Addition(long_bias=math.nan), "long_bias is a finite number"),
        (lambda: Multiplication("latice"), r"layout must be .*Did you mean lattice\?"),
        (lambda: Addition("lattice"), "one of column, column_carries, got 'lattice'"),
        (lambda: CARRIED.local_rule(), r"set data.task.addends to \[2, 2\]"),
        (lambda: TASK.parse(""), "'' is no multiplication; write it like 123x456"),
        (lambda: TASK.parse("12+34"), r"'12\+34' is no multiplication"),
        (lambda: TASK.parse("1x2x3"), "multiplication takes 2 operands, not 3"),
        (lambda: TASK.parse("1" * 200), f"'{'1' * 59}…' is no multiplication"),
        (lambda: Multiplication(base=2).parse("12x1"), "'12' is not a whole number .* in base 2"),
        (lambda: Addition().parse(MANY), "addition takes 2 to 100 operands, not 101"),
        (lambda: TASK.problems([()]), "multiplication takes 2 operands, not 0"),
        (lambda: TASK.problems([(12, 3), (3, -1)]), "whole numbers from 0 up, got -1"),
        (lambda: Addition().problems([(12, 3), (1,)]), "addition takes 2 to 100 operands, not 1"),
    ],
    "mazes": [
        *(
            (
                lambda text=text: Maze().parse(text),
                "no maze|no problem of the task maze: a maze has",
            )
            for text in ("S--/--%/%-G", "S%G/%%%/%%%", "S-/-%", "S-G", "S-G/S%%/%%%", "ab")
        ),
        (lambda: Maze().parsed(["S-%%-%%-"]), "^maze S-%%-%%- is no problem"),
        (lambda: Maze(length=(6, 6)), "odd number"),
        (lambda: Maze(loops=-1), "0 or more"),
    ],
    "networks": [
        (lambda: GPTConfig(hidden_size=18, num_heads=4), "multiple of num_heads, got 18 and 4"),
        (lambda: GPTConfig(position="learned2d"), "Did you mean learned_2d"),
        (lambda: GPTConfig(loops=0), "loops must be 1 or more, got 0"),
        (lambda: GPTConfig(50, 50, position="randomised"), "50 x 50 canvas has 2551 tokens"),
        (lambda: RecursiveConfig(neighbourhood="local_line"), "Did you mean local_lines"),
        (lambda: RecursiveConfig(position="randomised"), "choose another position"),
        (lambda: RecursiveConfig(L_cycles=0), "L_cycles must be 1 or more, got 0"),
        (lambda: RecursiveConfig(H_cycles=99_999), "H_cycles .*10,000 or less"),
        (lambda: RecursiveConfig(hidden_size=99_999), "hidden_size .*16,384 or less"),
        (lambda: RecursiveConfig(radius=-1), "radius must be 0 or more"),
        (lambda: RecursiveConfig(direction_bias=4.0), "set direction_bias to 0 or position to"),
        (lambda: RecursiveConfig(num_prefixes=2), "go together"),
        (lambda: RecursiveConfig(**UP_TO, **PLACED), r"at most .* = 16, got 17"),
        (lambda: CellConfig(**CELL, H_cycles=0), "H_cycles must be 1"),
        (lambda: make_position("learned", **UP_TO), "'height' and 'width'; there are head_dim"),
        (lambda: CellModel(CellConfig(**UP_TO)), "messages are missing: take rule_settings"),
        (lambda: family_of(torch.nn.Linear(1, 1)), "Linear belongs to no family: derive it from"),
        (lambda: to_smt(correct_table("column", 2)._replace(layout="x")), "for the layout x, only"),
    ],
    "canvases and sequences for networks": [
        (lambda: RECURSIVE(torch.zeros(2, 4, 5)), r"integer dtype and shape \[batch, height"),
        (lambda: RECURSIVE(torch.zeros(1, 5, 4).byte()), "learned positions do not serve a canvas"),
        (lambda: READER(START, 6, 7), "learned_2d positions do not serve a canvas of 6 x 7"),
        (lambda: READER(START.expand(3, 26), 4, 5), r"1 to 25 tokens, got torch\.int64 \[3, 26"),
        (lambda: READER.generate(-START, 4, 5, 16), "must be the start token in every sample"),
        (lambda: MaskedCanvases(PAGE, 10).selector("above leftt"), "Did you mean above left"),
        (lambda: MaskedCanvases(PAGE, 10).settle(lambda values: values + 1, 0), "does not settle"),
        (lambda: write_row("Totals", PAGE, 10), "layout of a program must be .* got 'Totals'"),
    ],
    "solving": [
        (lambda: IterativePredictor(torch.nn.Linear(1, 1), 0), "at least one supervision step"),
        (lambda: WALK.with_options(patience=0), "one unchanged step or more, not 0"),
        (lambda: Solver(WRITER, TASK).from_noise(), "this one takes none: leave it out"),
        (lambda: open_devices("cuda:1", 1, 1, "32-true"), "cuda:1"),
        (lambda: open_devices("cpu", [1], 1, "32-true"), "no indices: give --devices a number"),
        (lambda: voting(WRITER, symmetries=("h",)), "only shifts"),
        (lambda: solve_watched(voting(WALK, per="solution"), ONE, print), "vote per row"),
        (lambda: Voting(vote="plurality"), "vote must be one of"),
        (lambda: Voting(per="digit"), "vote-per must be one of"),
        (lambda: Voting(symmetries=("r45",)), "symmetry must be one of"),
        (lambda: Voting(views=0), "at least one view"),
        (lambda: Voting(rollouts=0), "at least one rollout, not 0"),
        (lambda: Voting(rollouts=2, noise=-1.0), "noise is a standard deviation from 0 up"),
        (lambda: Voting(rollouts=2, noise=float("nan")), "noise is a standard deviation from 0"),
        (lambda: Voting(rollouts=2), "give both, like --rollouts 8 --noise 0.2"),
        (lambda: Voting(noise=0.1), "give both, like --rollouts 8 --noise 0.2"),
        (lambda: Voting(orders=3), "1 or 2 orders of its operands, not 3"),
        (lambda: fit_calibration(np.array([np.nan]), np.array([True])), "are not finite"),
        (lambda: render("321x654", step=5), "has 4 steps, there is no step 5"),
        (lambda: solve([12, 3]), "12 is not a problem: give a text"),
        (lambda: solve(12), "12 is not a problem: give a text .* or a list of these"),
        (lambda: solve(None), "None is not a problem"),
        (lambda: solve({"a": 12}), "{'a': 12} is not a problem"),
        (lambda: solve("12x3", 42), r"a checkpoint is a file, .* not '42' \(int\)"),
        (lambda: load_solver(42), r"a checkpoint is a file, .* not '42' \(int\)"),
        (lambda: load_solver(load_solver()), r"a checkpoint is a file, .* \(Solver\)"),
        (lambda: sharing.Solver.from_pretrained(None), r"a checkpoint is a file, .* \(NoneType\)"),
        (lambda: load_solver(steps="3"), "steps: '3' is not a whole number from 1 to 10,000"),
        (lambda: load_solver(height=-1, width=3), "height: -1 is not a whole number from 1"),
        (lambda: load_solver(device=3), "there is no device '3'"),
        (lambda: load_solver(voting=4), r"voting is like Voting\(views=4\), .* not 4"),
        (lambda: load_solver().solve("12x3"), r"by trm\.solve\(problems, solver\)"),
        (lambda: batch.solve(42, ["12x3"]), "42 is not a solver"),
        (lambda: render("12x3", step="a"), "step: 'a' is not a whole number from 1 up"),
        (lambda: render("12x3", layout=3), "layout must be one of .* got 3"),
        (lambda: render("12x3", task=3), "task must be one of .* got 3"),
        (lambda: run_with_cache(None, "12x3", 5), "sites are names or patterns .* not 5"),
        (lambda: run_with_cache(None, "12x3", hooks=[3]), "3 is no hook: give pairs"),
        (lambda: evaluate(42, digits_a=[1], digits_b=[1]), r"a checkpoint is a file, .* \(int\)"),
        (lambda: evaluate([], digits_a=[1], digits_b=[1]), "no checkpoint in the list"),
        (lambda: evaluate(digits_a=["1"], digits_b=[1]), "digits_a is a list of sizes"),
        (lambda: evaluate(digits_a=[1], digits_b=[1], problems=0), "problems: 0 is not a whole"),
        (lambda: evaluate(digits_a=[1]), "sizes of the task multiplication are"),
        (lambda: evaluate(digits=[1], addends=[2]), "sizes of the task multiplication are"),
        (lambda: evaluate(digits_a=3, digits_b=[1]), "digits_a is a list of sizes"),
        (lambda: evaluate(digits_a=[1], digits_b=[0]), r"digits_b is a list of sizes .* not \[0\]"),
    ],
    "training": [
        (lambda: DepthConfig("cary"), "Did you mean carry"),
        (lambda: DepthConfig(no_grad_steps=(3, 1)), r"from 0 to 10,000, not \[3, 1\]"),
        (lambda: DepthConfig(exploration=1.5), "exploration is from 0 to 1, not 1.5"),
        (lambda: DepthConfig(supervised_steps=10_001), "supervised_steps is from 1 to 10,000, not"),
        (lambda: carrying(solve_steps=10**9), "solve_steps is from 1 to 10,000, not 1000"),
        (lambda: carrying(skip_blank=True), r"a token for every cell: set depth\.schedule: fresh"),
        (lambda: carrying(crop=True), r"a token for every cell: set depth\.schedule: fresh"),
        (lambda: OptimizerConfig(matrix_lr=math.nan), "matrix_lr is 0 or more, not nan"),
        (lambda: OptimizerConfig(betas=(0.9, 1.0)), "optimizer.betas are from 0 to below 1"),
        (lambda: ScheduleConfig(min_ratio=2.0), "schedule.min_ratio is from 0 to 1, not 2.0"),
        (lambda: module(loss="stablemax", confidence="cells"), r"model\.confidence cells"),
        (lambda: module(confidence="digits"), r"model\.confidence"),
        (lambda: data(validation_problems=0), "validation_problems is"),
        (lambda: data(workers=-1), "data.workers is .* not -1"),
        (lambda: data(workers=1000), "data.workers is .* not 1000"),
        (lambda: data(blanks=Blanks(-1)), "blanks.rows is 0 or more"),
        (lambda: data(Canvas(6, 6), priming=Priming(LONG)), "need a canvas of at least"),
        (lambda: data(priming=Priming({"digits": [6, 8]})), "must be one of .*digits_a"),
        (lambda: data(priming=Priming({})), "has the sizes of data.task: give the lengths"),
        (lambda: data(priming=Priming(LONG, share=2.0)), "data.priming.share is from 0 to 1"),
        (lambda: data(priming=Priming({"digits_a": [1, 1]}, 10**5)), "priming.problems to fewer"),
        (lambda: data(carry_practice=1.5), "data.carry_practice is from 0 to 1"),
        (
            lambda: CanvasDataModule(Multiplication("standard"), Canvas(), carry_practice=0.5),
            "carry_practice is for products in the layouts lattice",
        ),
        (lambda: data(carry_practice=0.5, pool=9), "data.pool keeps to some: leave one out"),
        (lambda: negatives(D4, turned=0.7, own=0.4), "the shares are at most 1 in all, not 1.1"),
        (lambda: negatives({}, digit=-0.1), r"data\.negatives\.digit is from 0 to 1"),
        (lambda: negatives({}, turned=0.5), r"add albumentations\.D4 to data\.transforms"),
        (lambda: negatives({"transforms": [CanvasShift()]}, guessed=0.5), "nothing turns them"),
        (lambda: negatives(D4, digit=0.5), "no share of these: set data.negatives.turned"),
        (lambda: cycles({"until": 3}, {"until": 3}), "listed in order"),
        (lambda: cycles({"until": 0}), "a number of epochs, or a share of the run between 0 and 1"),
        (lambda: cycles({"until": 1.5}), "or a share of the run between 0 and 1"),
        (lambda: cycles({"until": 0.5}, {"until": 2}), "in epochs for all stages, or for all a sh"),
        (lambda: cycles({"until": 1, "L_cycles": 0}), "L_cycles is from 1 to 10,000"),
        (lambda: cycles({"until": 1, "no_grad_steps": (2, 1)}), "no_grad_steps is"),
        (lambda: staged((3, {}), (3, {})), "with a later `until` than the one before, not 3, 3"),
        (lambda: staged((3, {"digit_a": [1, 2]})), "until 3: .*Did you mean digits_a"),
        (lambda: staged((3, {"digits_a": [1, 5]})), r"\[1, 5\] is not within the task's own, \[1"),
        (lambda: staged((3, {"digits_a": [2, 1]})), r"until 3: digits_a is \[fewest, most\]"),
        (lambda: staged((3, {"base": 3})), "a setting must be one of .* got 'base'"),
        (lambda: staged((1, ONES), task=BITS), "until 1: no problem of digits_a 1-1, digits_b 1-1"),
    ],
    "statistics": [
        *(
            (lambda of=of: Share(*of).interval, "must")  # more right than there are
            for of in ((3, 2), (-1, 2), (0, -1))
        ),
        (lambda: risk_coverage(np.array([np.nan]), np.array([True])), "is not a number"),
        (lambda: fit(torch.full((3, 2), math.nan), torch.zeros(3).long(), 2), "not finite"),
    ],
}


@pytest.mark.parametrize("of", CASES)
def test_impossible_calls_are_refused_by_the_name_of_the_option(of):
    for call, sentence in CASES[of]:
        with pytest.raises(ValueError, match=sentence):
            call()
