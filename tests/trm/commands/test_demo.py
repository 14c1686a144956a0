import re

from PIL import Image


def test_a_demo_watches_measures_draws_and_says_what_to_try_next(command, checkpoint, tmp_path):
    folder = tmp_path / "a new folder"
    ran = command("solve", "--checkpoint", checkpoint, "--demo", 130, "--output", folder)
    assert ran.code == 0, ran.err
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
    with (
        Image.open(folder / "solved.png") as picture,
        Image.open(folder / "solving.gif") as animation,
    ):
        assert picture.size == animation.size
        assert animation.n_frames >= 3  # a row masked, its supervision steps, and the answer


def test_pictures_are_put_beside_the_checkpoint_unless_told(command, trained_copy):
    assert command("solve", "--checkpoint", trained_copy, "--demo", 1).code == 0
    run = trained_copy / "runs/debug/version_0"
    assert {"solved.png", "solving.gif"} <= {path.name for path in run.iterdir()}


def test_the_model_that_comes_with_the_package_is_the_default(command, tmp_path):
    ran = command("solve", "--demo", 1, folder=tmp_path)
    assert ran.code == 0, ran.err
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"solved.png", "solving.gif"}
    assert "trm solve --watch" in ran.out
    assert "--logdir" not in ran.out  # it has no run to look at


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
