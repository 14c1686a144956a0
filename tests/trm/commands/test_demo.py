import re

from PIL import Image


def test_a_demo_watches_measures_draws_and_says_what_to_try_next(command, trained_copy, tmp_path):
    run = trained_copy / "runs/debug/version_0"
    before = set(run.rglob("*"))
    words = ("solve", "--checkpoint", run, "--demo", 130)
    for folder, more in ((tmp_path / "demo", ()), (tmp_path / "a new", ("--output", "a new"))):
        ran = command(*words, *more, folder=tmp_path)
        assert ran.code == 0, ran.err
        with (
            Image.open(folder / "solved.png") as picture,
            Image.open(folder / "solving.gif") as animation,
        ):
            assert picture.size == animation.size
            assert animation.n_frames >= 3  # a row masked, its supervision steps, and the answer
    assert set(run.rglob("*")) == before  # nothing is put beside the weights
    headings = (
        "Problems it has never seen, row by row",
        "How often it is right",
        "Longer than anything it was trained on",
        "What to try next",
    )
    places = [ran.out.index(heading) for heading in headings]
    assert places == sorted(places)
    assert ran.out.count("confidence ") == 4  # three problems watched and a longer one
    assert re.search(r"of 130; 95 % interval \d+\.\d to \d+\.\d %\)", ran.out)
    assert "seed 0" in ran.out
    assert f"--logdir {run}" in " ".join(ran.out.split())


def test_bad_input_gets_a_sentence_and_exit_code_2(command, checkpoint, tmp_path):
    (tmp_path / "file").touch()
    for words in (
        ("--checkpoint", checkpoint, "--demo", 0),
        ("--checkpoint", checkpoint, "--demo", "--output", tmp_path / "file"),
        ("--checkpoint", tmp_path, "--demo"),
        ("--checkpoint", checkpoint, "12x3", "--demo", 5),
    ):
        ran = command("solve", *words)
        assert ran.code == 2
        assert "trm solve: " in ran.err
