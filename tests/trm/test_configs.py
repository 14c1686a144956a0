import pytest
import yaml

from trm.configs import TooLargeError, check_call, check_size, foreign_names, read_config


def doubled(times: int) -> str:
    """Lines of which each repeats the one before it twice."""
    lines = ["a0: &a0 [x, y]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, times)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (doubled(40), "values, what aliases repeat among them"),
        ("a: &a " + 300 * "text " + "\nb: [" + 2000 * "*a, " + "]", "values, what aliases repeat"),
        ("data: " + "[" * 3000 + "]" * 3000, "at most 50 levels deep"),
        ("\n".join(" " * i + "a:" for i in range(100)), "at most 50 levels deep"),
        ("# " + "x" * 300_000, "characters"),
    ],
)
def test_a_configuration_is_measured_before_its_values_are_made(tmp_path, text, told):
    with pytest.raises(TooLargeError, match=told):
        check_size(text)
    (tmp_path / "bomb.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"bomb\.yaml: a configuration .*{told}"):
        read_config(tmp_path / "bomb.yaml")


def test_anchors_that_people_use_are_fine(tmp_path):
    (tmp_path / "small.yaml").write_text(doubled(5) + "\nmerged: {<<: {lr: 1}, lr: 2}")
    assert read_config(tmp_path / "small.yaml")["a1"] == [["x", "y"], ["x", "y"]]


def test_a_key_that_stands_twice_is_named_with_its_line(tmp_path):
    (tmp_path / "twice.yaml").write_text("data:\n  seed: 1\n  batch_size: 2\n  seed: 3\n")
    with pytest.raises(ValueError, match=r"twice\.yaml, line 4: seed stands there twice$"):
        read_config(tmp_path / "twice.yaml")
    (tmp_path / "once.yaml").write_text("a: {seed: 1}\nb: &b {seed: 1}\nc: [*b, *b]\n")
    assert read_config(tmp_path / "once.yaml")["c"] == [{"seed": 1}, {"seed": 1}]


def test_code_of_others_is_named_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "others.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    config = {
        "model": {"class_path": "trm.training.gpt_module.GPTModule"},
        "trainer": {
            "logger": {"class_path": "others.Logger", "init_args": {"save_dir": "runs"}},
            "callbacks": ["others.sub.Callback", "lightning.pytorch.callbacks.Timer"],
            "precision": "bf16-mixed",
        },
        "ckpt_path": "best.ckpt",
    }
    assert list(foreign_names(config)) == ["others.Logger", "others.sub.Callback"]


def call(folder, *words: str, **task: object) -> list[str]:
    """A training command with a config of its own, of a task with these settings."""
    file = folder / "mine.yaml"
    task = {"class_path": "canvas.multiplication.Multiplication", "init_args": task}
    file.write_text(yaml.safe_dump({"data": {"task": task}}))
    return ["fit", "--config", str(file), *words]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data.task.digits_b", "[4,1]"], r"digits_b is \[fewest, most\] from 1 to 1000"),
        (["--data.task.init_args.base=30"], "the base is 2 to 10, not 30"),
        (["--data.task.layout=lattic"], "Did you mean lattice"),
        (["--data.task.digits_a=[1,3]"], "the base is 2 to 10, not 11"),
    ],
)
def test_a_task_refuses_its_settings_before_training_begins(tmp_path, words, told):
    base = 11 if told.endswith("11") else 10
    with pytest.raises(ValueError, match=told):
        check_call(call(tmp_path, *words, base=base, digits_a=[1, 4]))


@pytest.mark.parametrize(
    "words",
    [
        ["--data.task.base=3"],  # counts more than what the config says
        ["--data.task=canvas.addition.Addition"],
        ["--data.task.layout=mine.Zigzag"],
        ["--data.task.digits_a=["],
    ],
)
def test_other_tasks_are_left_to_who_builds_them(tmp_path, words):
    check_call(call(tmp_path, *words, base=11))
