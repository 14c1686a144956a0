import pytest


@pytest.mark.parametrize(
    ("yaml", "named"),
    [
        (
            "model: {init_args: {optimiser: {name: adamw}}}",
            "there is no setting model.optimiser. Did you mean model.optimizer?",
        ),
        (
            "model: {init_args: {depth: {schedul: fresh}}}",
            "there is no setting model.depth.schedul. Did you mean model.depth.schedule?",
        ),
        (
            "model: {class_path: trm.training.gpt_module.GPTModul}",
            "Did you mean trm.training.gpt_module.GPTModule?",
        ),
        ("model: {init_args: {optimizer: {name: adam}}}", "optimizer.name must be one of"),
        (
            "model: {init_args: {network: {init_args: {config: {hidden_size: 15}}}}}",
            "hidden_size must be a multiple",
        ),
        ("model: {init_args: {solve_steps: 0}}", "solve_steps"),
        ("model: {init_args: {loss: {name: softmx}}}", "loss.name"),
        ("model: {init_args: {depth: {schedule: carry}}}", "data.canvas.height"),
        ("data: {task: {digit_a: [1, 2]}}", "Did you mean data.task.digits_a?"),
        ("data: {task: {digits_a: three}}", "data.task.digits_a: expected two values, as [1, 3]."),
        ("data: {task: {base: two}}", "data.task.base: expected int. Got value: two"),
        ("data: {task: {digits: [1, 3]}}", "Did you mean data.task.digits_"),  # of Addition alone
        (
            "data: {task: {class_path: Addition, init_args: {layout: column, digit: [1, 3]}}}",
            "there is no setting data.task.digit. Did you mean data.task.digits?",
        ),
        ("data: {task: addition}", "data.task: there is no class addition. Did you mean Addition?"),
        (
            "data: {task: canvas.addition.Additon}",
            "data.task: there is no class canvas.addition.Additon. "
            "Did you mean canvas.addition.Addition?",
        ),
        ("data: {task: {digits_a: [3, 1]}}", "digits_a"),
        ("data: {task: {layout: latice}}", "Did you mean lattice?"),
        ("data: {canvas: {margin: -3}}", "margin"),
        ("data: {task: {digits_a: [1, 100000]}}", "digits_a is [fewest, most] from 1 to 1000"),
        ("data: {task: {digits_a: [1, 900], digits_b: [1, 99]}}", "more than 12,000 cells"),
        ("data: {canvas: {margin: 9000}}", "more than 12,000 cells"),
        ("data: {canvas: {height: 1, width: 5}}", "at least 2 x 5"),
        ("data: {blanks: {rows: 1000000}}", "fewer blank rows and columns"),
        ("data: {blanks: 3}", "data.blanks is written like {rows: 1, columns: 2}, not 3"),
        ("data: {blanks: {rowz: 1}}", "Did you mean data.blanks.rows?"),
        ("data: {blanks: {rows: 1.5}}", "data.blanks: rows: expected int. Got value: 1.5"),
        ("data: {curriculum: 3}", "data.curriculum is written like [{until: 4, task: {digits_a:"),
        ("data: {curriculum: [{until: x, task: {}}]}", "until: expected int. Got value: x"),
        ("data: {batch_size: 0}", "data.batch_size"),
        ("data: {batches_per_epoch: 0}", "data.batches_per_epoch"),
        ("trainer: {max_epoch: 3}", "Did you mean trainer.max_epochs?"),
        ("trainer: {max_epochs: -1, max_time: '00:00:00:09'}", "decay has to end somewhere"),
        ("data: {batch_size: 2.5}", "data.batch_size: expected int. Got value: 2.5"),
        ("trainer: {max_epochs: many}", "trainer.max_epochs: expected int. Got value: many"),
        ("data: {transforms: [albumentations.D5]}", "Did you mean albumentations.D4?"),
        ("trainer: {logger: TensorBordLogger}", "Did you mean TensorBoardLogger?"),
        ("checkpoint: {monitor: validation/solvd}", "Did you mean validation/solved?"),
        ("checkpoint: {monitor: nonsense}", "There are validation/solved, validation/loss"),
        ("checkpoint: {monitor: train/loss}", "there is no figure train/loss"),  # of no validation
        (
            "{checkpoint: {monitor: training_problems/solved}, data: {training_problems: 0}}",
            "there is no figure training_problems/solved. Did you mean",
        ),
        ("data: [1", "slip.yaml, line 1: this is no YAML"),
        ("data: " + "[" * 999 + "]" * 999, "slip.yaml: a configuration is at most 50 levels deep"),
        ("trainer: {devices: abc}", "trainer.devices is a number from 1 up, a list of GPUs"),
        ("trainer: {accelerator: cpu, devices: -1}", "trainer: `devices` selected with"),
    ],
)
def test_a_slip_in_a_config_is_named_with_exit_code_2(command, debug, tmp_path, yaml, named):
    slip = tmp_path / "slip.yaml"
    slip.write_text(yaml)
    ran = command("fit", *debug, "--config", slip, folder=tmp_path)
    assert ran.code == 2
    assert named in ran.err
    assert "Traceback" not in ran.err
    assert "Namespace(" not in ran.err
    assert len(ran.err.splitlines()) <= 2  # that the seed was set, and what is wrong


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--data.batchsize=3", "data.batch_size"),
        ("--data.task.layot=x", "data.task.layout"),
        ("--data.tsk.layout=x", "data.task.layout"),
        ("--model.optimiser.lr=3", "model.optimizer.lr"),
        ("--trainer.max_epoks=3", "trainer.max_epochs"),
    ],
)
def test_a_slip_on_the_command_line_is_named_too(command, debug, tmp_path, word, meant):
    ran = command("fit", *debug, word, folder=tmp_path)
    assert ran.code == 2
    assert f"there is no setting {word[2:-2]}. Did you mean {meant}?" in ran.err
    assert "usage" not in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--config", "debug.yaml", "--data", "deep.yaml"], "at most 50 levels deep"),
        ([], "give a config, as in `trm fit --config"),
        (["--config", "nowhere.yaml"], "there is no config nowhere.yaml."),
        (["--config=debg.yaml"], "there is no config debg.yaml. Did you mean debug.yaml?"),
        (["--config", "picture.png"], "picture.png: this is no YAML"),
        (["--config", "text.yaml"], "text.yaml, line 2: this is no YAML"),
        (["--config", "list.yaml"], "list.yaml: a config has keys"),
        (["--config", "debug.yaml", "--ckpt_path", "lst"], "no checkpoint lst. Did you mean last?"),
        (["--config", "debug.yaml", "--ckpt_path", "gone.ckpt"], "no checkpoint gone.ckpt"),
        (["--config", "debug.yaml", "--trainer.max_epoch=3"], "Did you mean trainer.max_epochs?"),
    ],
)
def test_a_call_that_names_the_wrong_file_is_told_which(command, debug, tmp_path, words, told):
    (tmp_path / "debug.yaml").write_bytes(debug[1].read_bytes())
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    (tmp_path / "text.yaml").write_text("a: b\nc: d: e\n")
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "deep.yaml").write_text("task: " + "[" * 999 + "]" * 999)
    ran = command("fit", *words, folder=tmp_path)
    assert ran.code == 2
    assert told in ran.err
    assert not (tmp_path / "runs").exists()


def test_more_processes_than_cores_are_refused_before_any_is_started(command, debug, tmp_path):
    ran = command("fit", *debug, "--trainer.devices", 4096, folder=tmp_path)
    assert ran.code == 2
    assert "4096 processes on" in ran.err
    assert "or insist with --oversubscribe" in ran.err
    assert not list(tmp_path.rglob("version_*"))
