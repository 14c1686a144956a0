import os
import runpy
import warnings


def test_it_trains_saves_and_solves(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main = runpy.run_path(str(repository / "examples/train_with_lightning.py"))["main"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's, of few workers
        main(["--epochs", "2", "--batches", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" parameters")
    steps = [line.partition(",")[0] for line in lines if line.endswith("% solved")]
    assert steps == ["step 3", "step 6"]
    assert "12 x 3 = " in lines[-1] or "12x3" in lines[-1], lines[-1]
    assert os.listdir(tmp_path) == ["lightning.ckpt"]
