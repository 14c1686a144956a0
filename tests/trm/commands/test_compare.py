import json
import re
from pathlib import Path

import pytest
from PIL import Image

from trm.commands.compare import read_grid, side_by_side


def right(a: int, b: int) -> float:
    return 1.0 if a <= 3 else 0.4


def wrong(a: int, b: int) -> float:
    return 0.1


def write(folder: Path, grid: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grid.json").write_text(grid if isinstance(grid, str) else json.dumps(grid))
    return folder


def test_two_evaluations_become_a_picture_and_a_report(command, make_grid, tmp_path):
    one = write(tmp_path / "one", make_grid({"small": right}))
    two = write(tmp_path / "two", make_grid({"gpt": wrong}))
    output = tmp_path / "a new" / "folder"
    ran = command("compare", one, two / "grid.json", "--output", output)
    assert ran.code == 0, ran.err
    report = (output / "compare.md").read_text(encoding="utf-8")
    link = re.search(r"!\[.*\]\((.*)\)", report)[1]
    with Image.open(output / link) as picture:
        assert picture.width > 600
    assert "## Against small" in report
    assert "All models were asked the same problems." in report
    for word in ("small", "gpt", "in range", "compare.png", "compare-rows.png", "compare.md"):
        assert word in ran.out
    with Image.open(output / "compare-rows.png") as picture:
        assert picture.width > 600


def test_a_picture_of_rows_that_is_not_of_these_models_does_not_stay(command, make_grid, tmp_path):
    for lengths, there in (([2, 3], True), ([5, 6], False)):
        grid = make_grid({"small": right, "gpt": wrong}, [2, 3], lengths)
        ran = command("compare", write(tmp_path / "both", grid), "--output", tmp_path)
        assert ran.code == 0, ran.err
        assert (tmp_path / "compare-rows.png").exists() == there


def test_the_reference_is_chosen_by_name(command, make_grid, tmp_path):
    folder = write(tmp_path / "both", make_grid({"small": right, "gpt": wrong}))
    words = ("compare", folder, "--output", tmp_path, "--reference")
    assert command(*words, "gpt").code == 0
    assert "## Against gpt" in (tmp_path / "compare.md").read_text(encoding="utf-8")
    ran = command(*words, "smal")
    assert ran.code == 2
    assert "Did you mean small?" in ran.err


def test_different_problems_are_said_in_the_report_and_on_the_terminal(
    command, make_grid, tmp_path
):
    one = write(tmp_path / "one", make_grid({"small": right}))
    two = write(tmp_path / "two", make_grid({"gpt": wrong}, seed=1))
    ran = command("compare", one, two, "--output", tmp_path)
    assert ran.code == 0
    for text in (ran.out, (tmp_path / "compare.md").read_text(encoding="utf-8")):
        assert "NOT THE SAME PROBLEMS (seed 0 or 1)" in text


def test_names_that_several_evaluations_share_are_told_apart_by_their_folders(make_grid):
    grids = [make_grid({"small": right, f"gpt{i}": wrong}, seed=i) for i in range(2)]
    merged = side_by_side(grids, ["runA", "runB"])
    names = [model["name"] for model in merged["models"]]
    assert names == ["runA: small", "gpt0", "runB: small", "gpt1"]
    assert [model["settings"]["seed"] for model in merged["models"]] == [0, 0, 1, 1]


def test_seeds_of_one_run_are_told_apart_by_their_seeds(make_grid):
    grids = [
        make_grid({"q": lambda a, b: 0.5}, config={"seed_everything": seed, "data": {"seed": seed}})
        for seed in (0, 1)
    ]
    models = side_by_side(grids, ["one", "other"])["models"]
    assert [model["name"] for model in models] == ["q, seed 0", "q, seed 1"]


def test_seeds_that_were_evaluated_apart_are_told_together(command, make_grid, tmp_path):
    folders = [
        write(tmp_path / name, make_grid({name: lambda a, b, r=r: r}, [2], [1]))
        for name, r in (("wide-seed0", 1.0), ("wide-seed1", 0.5), ("narrow-seed0", 0.25))
    ]
    ran = command("compare", *folders, "--output", "out", folder=tmp_path)
    assert ran.code == 0, ran.err
    told = ran.out.split("Seeds together")[1]
    assert "wide" in told
    assert "[50.0–100.0]" in told
    assert "narrow" not in told  # of a single seed
    report = (tmp_path / "out/compare.md").read_text(encoding="utf-8")
    assert "| wide | 2 | 75.0 [50.0–100.0]" in report


def test_no_two_models_get_the_same_name(make_grid):
    grids = [make_grid({"small": right, "b: small": right}), make_grid({"small": right})]
    names = [model["name"] for model in side_by_side(grids, ["a", "b"])["models"]]
    assert len(set(names)) == 3


def test_folders_of_one_name_are_told_apart_by_their_paths(command, make_grid, tmp_path):
    for run in ("x", "y"):
        write(tmp_path / run / "grid", make_grid({"small": right}))
    ran = command("compare", "x/grid", "y/grid", "--output", "out", folder=tmp_path)
    assert ran.code == 0, ran.err
    report = (tmp_path / "out/compare.md").read_text(encoding="utf-8")
    assert "x/grid: small" in report
    assert "y/grid: small" in report


def test_different_ranges_are_laid_over_one_another(command, make_grid, tmp_path):
    one = write(tmp_path / "one", make_grid({"small": right}, 5, 2))
    two = write(tmp_path / "two", make_grid({"gpt": wrong}, 2, [1, 2, 9]))
    assert command("compare", one, two, "--output", tmp_path).code == 0
    report = (tmp_path / "compare.md").read_text(encoding="utf-8")
    assert "| gpt | in range | 4 | 0 | 4 | 0 |" in report
    assert "gpt | second beyond" not in report


def lacking(grid: dict) -> dict:
    del grid["models"][0]["cells"][3]["solutions"]
    return grid


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda grid: json.dumps(grid)[:500], "is damaged"),
        (lambda grid: "", "is damaged"),
        (lambda grid: "[" * 100_000, "nested too deeply"),
        (lambda grid: [1, 2], "is not what trm evaluate writes: it names no format"),
        (lambda grid: {"lr": 1}, "is not what trm evaluate writes: it names no format"),
        (lambda grid: grid | {"format": 9}, "has format 9, and this version of trm reads format 2"),
        (lambda grid: grid | {"models": 3}, "is not what trm evaluate writes"),
        (lambda grid: {"format": 2}, "is not what trm evaluate writes: it lacks '"),
        (lambda grid: grid | {"models": []}, "holds no model"),
        (lacking, "is not what trm evaluate writes: it lacks 'solutions'"),
    ],
)
def test_files_that_are_no_grid_get_a_sentence(make_grid, tmp_path, content, said):
    folder = write(tmp_path / "one", content(make_grid({"small": right})))
    with pytest.raises(ValueError, match=re.escape(said)):
        read_grid(folder)


def test_bad_input_gets_a_sentence_and_exit_code_2(command, make_grid, tmp_path):
    one = write(tmp_path / "one", make_grid({"small": right, "gpt": wrong}))
    single = write(tmp_path / "single", make_grid({"small": right}))
    ternary = write(tmp_path / "ternary", make_grid({"small": right}, task={"base": 3}))
    (tmp_path / "file").touch()
    (one / "binary").write_bytes(bytes(range(256)))
    for words, said in (
        ((tmp_path / "nowhere",), "there is no "),
        ((tmp_path,), "in which trm evaluate has finished"),
        ((tmp_path / "file",), "is damaged"),
        ((single,), "at least two models"),
        ((one, one), "given more than once"),
        ((one, f"{tmp_path}/./one/grid.json"), "given more than once"),
        ((one / "binary",), "is not a grid.json"),
        ((one, ternary), "bases 3 and 10"),
        ((), "required"),
    ):
        ran = command("compare", *words, "--output", tmp_path / "out")
        assert ran.code == 2
        assert said in ran.err
        assert ran.err.count("\n") == 1 or "--help` tells more" in ran.err
        assert not (tmp_path / "out").exists()
    ran = command("compare", one, "--output", tmp_path / "file")
    assert ran.code == 2
    assert "--output" in ran.err
