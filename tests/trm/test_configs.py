import pytest

from trm.configs import TooLargeError, check_size, foreign_names, read_config


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
