"""A wrong call or config is told in one sentence, with exit code 2."""

import pytest
import yaml

# What stands in a config, and what the sentence says.
MISTAKES = [
    ("model: {init_args: {optimiser: {name: adamw}}}", "Did you mean model.optimizer.name?"),
    ("model: {init_args: {hidden_size: 3}}", "Did you mean model.network.config.hidden_size?"),
    ("model: {class_path: trm.training.gpt_module.GPTModul}", "gpt_module.GPTModule?"),
    ("model: {init_args: {optimizer: {lr: abc}}}", "lr: expected float. Got value: abc"),
    ("model: {init_args: {network: {init_args: {config: {hidden_size: 15}}}}}", "got 15 and 2"),
    ("data: {batch_size: 100000000}", "data.batch_size is from 1 to 1,000,000, not 100000000"),
    ("model: {init_args: {depth: {schedule: carry}}}", "data.canvas.height"),
    ("data: {task: {digit_a: [1, 2]}}", "Did you mean data.task.digits_a?"),
    ("data: {task: {digits_a: three}}", "data.task.digits_a: expected two values, as [1, 3]. Got"),
    ("data: {task: {digits: [1, 3]}}", "Did you mean data.task.digits_"),  # of Addition alone
    ("data: {task: {class_path: Addition, init_args: {digit: [1, 3]}}}", "data.task.digits?"),
    ("data: {task: canvas.addition.Additon}", "Did you mean canvas.addition.Addition?"),
    ("data: {blanks: {rows: 1000000}}", "fewer blank rows and columns"),
    # The reason of one class in a list, here that its package is not installed.
    ("trainer: {logger: [{class_path: lightning.pytorch.loggers.MLFlowLogger}]}", "mlflow"),
    ("data: {blanks: 3}", "data.blanks: expected the settings of Blanks, see --data.blanks.help"),
    ("data: {curriculum: [{until: x, task: {}}]}", "until: expected int or float. Got value: x"),
    ("data: {transforms: [albumentations.D5]}", "Did you mean albumentations.D4?"),
    ("data: [1", "mistake.yaml, line 1: expected ',' or ']'"),
    ("trainer: {max_epoch: 3}", "Did you mean trainer.max_epochs?"),
    ("trainer: {max_epochs: -1, max_time: '00:00:00:09'}", "this run has no end"),
    ("trainer: {accumulate_grad_batches: 0}", "accumulate_grad_batches is 1 or more, not 0"),
    ("trainer: {logger: TensorBordLogger}", "Did you mean TensorBoardLogger?"),
    ("trainer: {precision: bf17}", "Got value: bf17. Did you mean bf16"),
    ("trainer: {precision: 64}", "trainer.precision 64 is neither bf16-mixed"),
    ("trainer: {accelerator: cpuu}", "Did you mean cpu?"),
    ("trainer: {logger: {class_path: CSVLogger, init_args: {save_dir: 's3://a'}}}", "s3://a is"),
    ("checkpoint: {dirpath: 'gs://a'}", "checkpoint.dirpath: gs://a is not on this machine"),
    (
        "trainer: {logger: {class_path: CSVLogger, init_args: {save_dir: mistake.yaml}}}",
        "trainer.logger.save_dir: mistake.yaml is no folder to write to (Not a directory)",
    ),
    (
        "trainer: {default_root_dir: mistake.yaml/x}",
        "trainer.default_root_dir: mistake.yaml/x is no folder to write to (Not a directory)",
    ),
    ("trainer: {callbacks: [LearningRateFinder]}", "Set model.optimizer.lr, or compare some by"),
    ("checkpoint: {save_topk: 3}", "Did you mean checkpoint.save_top_k?"),
    ("axes: {}", "is a study, of many runs: trm sweep"),
]


@pytest.mark.parametrize(("text", "named"), MISTAKES, ids=lambda text: text[:40])
def test_a_mistake_in_a_config_is_named(command, debug, tmp_path, text, named):
    file = tmp_path / "mistake.yaml"
    file.write_text(text)
    ran = command("fit", *debug, "--config", file, folder=tmp_path, code=2)
    assert named in ran.err
    assert "Traceback" not in ran.err
    assert "Namespace(" not in ran.err
    assert len(ran.err.splitlines()) <= 2  # that the seed was set, and what is wrong
    assert not list(tmp_path.rglob("*.ckpt"))


OWN = """
from dataclasses import dataclass

from trm.models.iterative import IterativeModel


@dataclass
class KeysConfig:
    channels: int = 8
    updates: int = 2


class KeysModel(IterativeModel):
    def __init__(self, config: KeysConfig):
        super().__init__()

    encode = initial_state = iterate = read = None
"""


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("config.chanels", "config.chanels. Did you mean model.network.config.channels?"),
        (
            "config.hidden_size",
            "config.hidden_size. KeysModel has config.channels, config.updates.",
        ),
        ("nothing", "setting model.network.nothing. KeysModel has config.channels"),
    ],
)
def test_an_unknown_key_of_an_own_network_lists_its_keys(
    command, debug, tmp_path, monkeypatch, key, told
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_keys.py").write_text(OWN)
    config = yaml.safe_load(debug[1].read_text())
    config["model"]["init_args"]["network"] = {"class_path": "own_keys.KeysModel"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(config))
    words = ("--config", "own.yaml", f"--model.network.{key}=3")
    ran = command("fit", *words, folder=tmp_path, code=2)
    assert told in ran.err


GPT = ("--config", "gpt/small_learned_2d")
HINTED, LATENT = ("--config", "generalise/lattice"), ("--config", "generalise/latent")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "give a config, as in `trm fit --config"),
        (["--config="], "the name after --config is empty"),
        (["--config", "nowhere.yaml"], "there is no config nowhere.yaml."),
        (["--config=debg.yaml"], "there is no config debg.yaml. Did you mean debug.yaml?"),
        (["--config", "picture.png"], "picture.png is no text in UTF-8"),
        (["--config", "list.yaml"], "list.yaml: a config has keys"),
        (["--config", "debug.yaml", "--ckpt_path", "lst"], "there is no checkpoint lst"),
        (["--config", "debug.yaml", "--trainer.accelerator=mps"], "no device 'mps' to compute on"),
        (["--config", "debug.yaml", "--seed=-1"], "seed is a whole number from 0"),
        (["--config", "debug.yaml", "--import"], "argument --import: expected one argument"),
        (["--config", "debug.yaml", "--data.negatives.tunred=1"], "mean data.negatives.turned?"),
        (["--config", "debug.yaml", "--weights", "nowhere.ckpt"], "no checkpoint nowhere.ckpt"),
        (["--config", "quickstart", "--model.auxiliary={carry: 1}"], "hints already. Leave it out"),
        ([*GPT, "--data.negatives.digit=0.5"], "data.negatives are for recursive transformers"),
        (["--config", "debug.yaml", "--import", "nowhere_at_all"], "there is no module"),
        (["--config", "debug.yaml", "--model.network=trm.models.GPT"], "a subclass of Iterative"),
        ([*GPT, "--data.transforms=[albumentations.D4]"], "CanvasShift (now: r90, r180, r270, v,"),
        ([*HINTED, "--data.task.layout=direct"], "the layout direct declares no local rule"),
        ([*HINTED, "--data.blanks.rows=2"], "leave out data.transforms"),
        ([*LATENT, "--model=trm.cells.CellModule"], "leave out codes, or train the model"),
        ([*LATENT, "--model.network.config.codes={}"], "name the signals without labels"),
        ([*LATENT, "--model.cooling=[0.9,0.5]"], "model.cooling is [begin, end] from 0 to 1"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(command, debug, tmp_path, words, told):
    (tmp_path / "debug.yaml").write_bytes(debug[1].read_bytes())
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    (tmp_path / "list.yaml").write_text("[1, 2]")
    ran = command("fit", *words, folder=tmp_path, code=2)
    assert told in ran.err
    assert not (tmp_path / "runs").exists()


def test_the_help_lists_keys_of_the_project_and_of_lightning(command):
    ran = command("fit", "--help")
    for key in ("--data.task", "--data.canvas.margin", "--checkpoint.monitor", "--trainer.devices"):
        assert key in ran.out
    assert "A config is code" in ran.out
    assert "FILE describes a model, its data and a trainer" in ran.out
    assert "a name that `trm configs` lists" in " ".join(ran.out.split())
