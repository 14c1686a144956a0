"""Models that others take: folders with a card, the hub (a made-up one), networks as ONNX."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from trm import solve
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.models.iterative import where
from trm.sharing import from_pretrained, push_to_hub, save_pretrained, to_onnx
from trm.solving.solver import Solver


class Hub:
    """A hub of folders on this disk, with the functions of huggingface_hub that are called."""

    def __init__(self, root: Path) -> None:
        self.root, self.created = root, {}

    def create_repo(self, repo_id: str, **options: object) -> None:
        self.created[repo_id] = options

    def upload_folder(self, repo_id: str, folder_path: str) -> str:
        shutil.copytree(folder_path, self.root / repo_id)
        return f"https://hub/{repo_id}"

    def snapshot_download(self, repo_id: str, revision: str | None, allow_patterns: str) -> str:
        assert (revision, allow_patterns) == (None, "*.safetensors")
        return str(self.root / repo_id)


def test_a_model_comes_back_from_a_folder_with_a_card_of_its_proof_and_figures(tmp_path):
    folder = tmp_path / "multiply"
    save_pretrained(SHIPPED, folder)
    save_pretrained(SHIPPED, folder)  # what is the same can be written again
    card = (folder / "README.md").read_text()
    assert "`CellModel` of 50,853 parameters for multiplication in base 10" in card
    assert (
        "**Proved correct at every length** (1,204,976 cell inputs, smallest margin 10.7)." in card
    )
    assert "| 16 | 16 | 100.0 % (99.2–100.0) |" in card
    assert f'solve("12x3", from_pretrained("{folder}"))' in card
    solution = solve("12x3", from_pretrained(folder, device="cpu"))
    assert (solution.answer, solution.confidence) == (36, 1)


def test_a_model_goes_to_the_hub_and_comes_back(tmp_path, monkeypatch, repository):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub := Hub(tmp_path))
    weights = repository / "docs/models/column-seed0.safetensors"
    assert push_to_hub(weights, "me/add", private=True) == "https://hub/me/add"
    assert hub.created == {"me/add": {"exist_ok": True, "private": True}}
    assert 'solve("12+3", from_pretrained("me/add"))' in (tmp_path / "me/add/README.md").read_text()
    assert solve("12+3", from_pretrained("me/add")).answer == 15


def test_what_cannot_be_put_into_a_folder_is_refused(tmp_path, repository, checkpoint, monkeypatch):
    with pytest.raises(ValueError, match="write one with `trm inspect --export`"):
        save_pretrained(checkpoint, tmp_path)
    save_pretrained(SHIPPED, tmp_path)
    with pytest.raises(ValueError, match="holds other weights"):
        save_pretrained(repository / "docs/models/column-seed0.safetensors", tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/README.md").write_text("my own notes")
    with pytest.raises(ValueError, match="no model card: name another folder"):
        save_pretrained(SHIPPED, tmp_path / "mine")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"no folder me/nothing, .* pip install huggingface_hub"):
        from_pretrained("me/nothing")


def run_onnx(solver: Solver, *inputs: torch.Tensor) -> list[np.ndarray]:
    """What the ONNX network of a model gives."""
    why = "onnxruntime is not installed: it comes with the extra dev, or onnx"
    runtime = pytest.importorskip("onnxruntime", reason=why)
    size = solver.canvas.size(*solver.task.extent())
    session = runtime.InferenceSession(to_onnx(solver.predictor.model, *size))
    names = [given.name for given in session.get_inputs()]
    return session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})


def assert_same(found: list[np.ndarray], expected: tuple[torch.Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = max(1, float(other.abs().max()))  # float32 has seven digits of the largest
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=1e-5)


def test_a_cell_as_onnx_gives_the_same_logits_and_blank_cells_are_refused(repository):
    solver = load_solver(repository / "docs/models/lattice-base2-seed0.safetensors", device="cpu")
    model = solver.predictor.model
    op_inputs = torch.randint(model.encoding.starts[-1], (500,))
    with torch.no_grad():
        assert_same(run_onnx(solver, op_inputs), model.cells(model.reader.decode(op_inputs)))
    solver = load_solver(repository / "docs/models/decimal-seed0.safetensors", device="cpu")
    with pytest.raises(ValueError, match="of which all cells are tokens"):
        to_onnx(solver.predictor.model, 6, 6)


def test_a_supervision_step_as_onnx_begins_and_goes_on_as_the_model_does(checkpoint):
    solver = load_solver(checkpoint, device="cpu")
    model = solver.predictor.model
    size = solver.canvas.size(*solver.task.extent())
    tokens = torch.randint(1, 14, (3, *size))  # samples that the example has not
    context = model.encode(tokens)
    state = model.iterate(context, model.initial_state(context))
    begins = torch.tensor([False, True, False])
    with torch.no_grad():
        mixed = where(begins, state, model.iterate(context, state))
        found = run_onnx(solver, tokens, begins, *(part.detach() for part in state))
        assert_same(found, (*model.read(mixed, context), *mixed))


def test_a_missing_extra_is_told_in_a_sentence(command, tmp_path, monkeypatch):
    for part in [name for name in sys.modules if name.startswith("torch.onnx._internal.exporter")]:
        monkeypatch.delitem(sys.modules, part)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "onnxscript" in command("inspect", "--export", "cell.onnx", folder=tmp_path, code=1).err
    assert not list(tmp_path.iterdir())
