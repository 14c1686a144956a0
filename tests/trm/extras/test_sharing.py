"""Models that others take: folders with a card, the hub (a made-up one), networks as ONNX."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny import tiny_trm

import trm
from trm import solve
from trm.checkpoints import SHIPPED
from trm.checkpoints.content import save_model
from trm.checkpoints.loading import load_solver
from trm.extras.sharing import from_pretrained, push_to_hub, save_pretrained, to_onnx
from trm.models.states import where_samples
from trm.solving.solver import Solver
from trm.solving.voting import Voting


class Hub:
    """A hub of folders on this disk, with the functions of huggingface_hub that are called."""

    def __init__(self, root: Path) -> None:
        self.root, self.created, self.options = root, {}, {}

    def create_repo(self, repo_id: str, **options: object) -> None:
        self.created[repo_id] = options

    def upload_folder(self, repo_id: str, folder_path: str) -> str:
        shutil.copytree(folder_path, self.root / repo_id)
        return f"https://hub/{repo_id}"

    def snapshot_download(self, repo_id: str, allow_patterns: list[str], **options: object) -> str:
        assert allow_patterns == ["*.safetensors", "*.decisions.npz", "config.json"]
        self.options = options
        if not (self.root / repo_id).exists():
            raise RuntimeError(f"no repository {repo_id}\nat https://hub")
        return str(self.root / repo_id)


def test_a_shared_folder_loads_and_has_a_card_with_the_proof(tmp_path):
    folder = tmp_path / "multiply"
    save_pretrained(SHIPPED, folder)
    save_pretrained(SHIPPED, folder)  # what is the same can be written again
    names = {"README.md", "config.json", "model.safetensors", "model.decisions.npz"}
    assert {file.name for file in folder.iterdir()} == names
    assert (folder / "model.safetensors").read_bytes() == SHIPPED.read_bytes()
    card = (folder / "README.md").read_text()
    assert f'solve("123x456", Solver.from_pretrained("{folder}"))' in card
    solver = trm.Solver.from_pretrained(folder, device="cpu")
    assert solver.file == folder / "model.safetensors"
    solution = solve("12x3", solver)
    assert (solution.answer, solution.confidence) == (36, 1)
    assert solver.predictor._closed is not None  # decisions are looked up
    config = json.loads((folder / "config.json").read_text())
    assert config["data"]["task"]["layout"] == "lattice"
    config["data"]["task"]["base"] = 3
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"differs from the settings in model\.safetensors"):
        trm.Solver.from_pretrained(folder)


def test_a_loaded_solver_can_be_saved_and_one_without_a_file_not(tmp_path):
    solver = trm.load_solver("tiny-seed0", device="cpu").with_voting(Voting())
    solver.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved/model.safetensors").read_bytes() == solver.file.read_bytes()
    made = Solver(solver.predictor, solver.task)
    with pytest.raises(ValueError, match="not loaded from a file: save a checkpoint"):
        made.save_pretrained(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_solver_is_saved_from_another_working_folder(tmp_path, checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint.parent)
    solver = load_solver(checkpoint.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    solver.save_pretrained("saved")
    assert (tmp_path / "saved/model.safetensors").is_file()


def test_changed_weights_are_saved_without_proof_and_figures(tmp_path):
    solver = trm.Solver.from_pretrained("lattice-base2-seed0", device="cpu")
    solver.save_pretrained(tmp_path / "same")
    same = tmp_path / "same/model.safetensors"
    assert same.read_bytes() == solver.file.read_bytes()
    assert "**Proved.** Correct at every length" in (tmp_path / "same/README.md").read_text()
    with torch.no_grad():
        next(solver.predictor.model.parameters()).add_(0.01)
    solver.save_pretrained(tmp_path / "changed", "me/changed")
    assert "**Proved.** Nothing yet" in (tmp_path / "changed/README.md").read_text()
    changed = trm.Solver.from_pretrained(tmp_path / "changed", device="cpu")
    assert not changed.predictor.proved
    for name, value in solver.predictor.model.state_dict().items():
        assert torch.equal(changed.predictor.model.state_dict()[name], value)


def test_a_compiled_network_is_saved_and_looked_at_as_it_is(tmp_path):
    solver = Solver.from_pretrained(SHIPPED)
    sites, weights = trm.sites(solver.predictor.model), solver.predictor.model.state_dict()
    compiled = torch.compile(solver.predictor.model, backend="eager")
    solver.predictor.model = compiled
    solver.save_pretrained(tmp_path / "shared")
    save_model(tmp_path / "saved.safetensors", compiled, solver.task)
    for saved in ("shared", "saved.safetensors"):
        model = load_solver(tmp_path / saved).predictor.model
        assert all(torch.equal(weights[name], one) for name, one in model.state_dict().items())
    assert trm.sites(compiled) == sites
    assert trm.run_with_cache(solver, "12x34", "op_logits")[1]["op_logits"].isfinite().all()


def test_a_network_with_renamed_weights_is_not_saved(tmp_path):
    solver = Solver.from_pretrained(SHIPPED)
    torch.nn.utils.parametrizations.weight_norm(solver.predictor.model.halt_head)
    with pytest.raises(ValueError, match=r"have other names than those in .*halt_head"):
        solver.save_pretrained(tmp_path / "shared")
    assert not (tmp_path / "shared").exists()


def test_the_checkpoint_of_a_run_is_exported_into_the_folder(tmp_path, checkpoint):
    save_pretrained(checkpoint, tmp_path / "mine")
    card = (tmp_path / "mine/README.md").read_text()
    assert "**Tested.** The file has no figures: `trm evaluate` measures them" in card
    found = trm.Solver.from_pretrained(tmp_path / "mine", device="cpu").predictor.model
    before = load_solver(checkpoint, device="cpu").predictor.model
    for name, value in before.state_dict().items():
        assert torch.equal(found.state_dict()[name], value)


def test_a_model_goes_to_the_hub_and_comes_back(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub := Hub(tmp_path))
    assert push_to_hub("column-seed0", "me/add", private=True) == "https://hub/me/add"
    assert hub.created == {"me/add": {"exist_ok": True, "private": True}}
    card = (tmp_path / "me/add/README.md").read_text()
    assert 'solve("123+456", Solver.from_pretrained("me/add"))' in card
    solver = from_pretrained("me/add", revision="v1", cache_dir=tmp_path, device="cpu")
    assert hub.options == {"revision": "v1", "cache_dir": tmp_path}
    assert solve("12+3", solver).answer == 15
    assert solver.push_to_hub("me/again") == "https://hub/me/again"


def test_errors_of_the_hub_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub := Hub(tmp_path))
    nothing = r"no folder me/nothing here, and no model .* \(no repository me/nothing\)$"
    with pytest.raises(FileNotFoundError, match=nothing):
        trm.Solver.from_pretrained("me/nothing")
    monkeypatch.setattr(hub, "upload_folder", lambda **options: 1 / 0)
    with pytest.raises(OSError, match=r"me/x was not pushed .*division by zero"):
        push_to_hub("tiny-seed0", "me/x")
    with pytest.raises(FileNotFoundError, match=r"the nearest: tiny-seed0"):  # no name of a hub
        trm.Solver.from_pretrained("tiny-sed0")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"me/nothing.* pip install huggingface_hub"):
        trm.Solver.from_pretrained("me/nothing")


def test_models_that_cannot_be_shared_are_refused(tmp_path):
    save_pretrained(SHIPPED, tmp_path)
    with pytest.raises(ValueError, match="holds other weights"):
        save_pretrained("column-seed0", tmp_path)
    for name, text in (("README.md", "my own notes"), ("config.json", '{"model_type": "other"}')):
        (tmp_path / name[:1]).mkdir()
        (tmp_path / name[:1] / name).write_text(text)
        with pytest.raises(ValueError, match=f"{name} is there already.*name another folder"):
            save_pretrained(SHIPPED, tmp_path / name[:1])
        assert [file.name for file in (tmp_path / name[:1]).iterdir()] == [name]


def run_onnx(model: torch.nn.Module, *inputs: torch.Tensor) -> list[np.ndarray]:
    """Outputs of a model's ONNX network, of 4 x 5 canvases where it has canvases."""
    why = "onnxruntime is not installed: it comes with the extra dev, or onnx"
    runtime = pytest.importorskip("onnxruntime", reason=why)
    session = runtime.InferenceSession(to_onnx(model, 4, 5))
    names = [given.name for given in session.get_inputs()]
    return session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})


def assert_same(found: list[np.ndarray], expected: tuple[torch.Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = max(1, float(other.abs().max()))  # float32 has seven digits of the largest
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=1e-5)


def test_a_cell_in_onnx_gives_the_same_logits():
    model = load_solver("lattice-base2-seed0", device="cpu").predictor.model
    op_inputs = torch.randint(model.encoding.starts[-1], (500,))
    with torch.no_grad():
        assert_same(run_onnx(model, op_inputs), model.cells(model.reader.decode(op_inputs)))
    with pytest.raises(ValueError, match="skip_blank or crop"):
        to_onnx(tiny_trm(skip_blank=True), 6, 6)


def test_a_supervision_step_in_onnx_equals_the_models():
    settings = {"neighbourhood": "local_lines", "halt_pool": "mask"}
    model = tiny_trm(position="relative_2d", **settings)
    tokens = torch.randint(1, 14, (3, 4, 5))  # samples that the example has not
    context = model.encode(tokens)
    state = model.iterate(context, model.initial_state(context))
    begins = torch.tensor([False, True, False])
    with torch.no_grad():
        mixed = where_samples(begins, state, model.iterate(context, state))
        compiled = torch.compile(model, backend="eager")
        found = run_onnx(compiled, tokens, begins, *(part.detach() for part in state))
        assert_same(found, (*model.read(mixed, context), *mixed))


def test_a_network_of_puzzles_is_exported_on_its_symbols(monkeypatch):
    """Puzzles with fewer symbols than the id of a mask."""
    ran = []

    def export(network, example, **_: object) -> SimpleNamespace:
        ran.append([part.shape for part in network.forward(*example)])
        return SimpleNamespace(model_proto=SimpleNamespace(SerializeToString=lambda: b"onnx"))

    monkeypatch.setattr("torch.onnx.export", export)
    assert to_onnx(tiny_trm(position="relative_2d", vocab_size=6), 4, 5) == b"onnx"
    assert ran == [[(2, 4, 5, 6), (2,), (2, 20, 16), (2, 20, 16)]]


def test_a_missing_extra_is_named_in_a_sentence(command, tmp_path, monkeypatch):
    for part in [name for name in sys.modules if name.startswith("torch.onnx._internal.exporter")]:
        monkeypatch.delitem(sys.modules, part)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "onnxscript" in command("inspect", "--export", "cell.onnx", folder=tmp_path, code=1).err
    assert not list(tmp_path.iterdir())
