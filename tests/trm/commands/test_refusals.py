"""Impossible calls get a sentence and exit code 2, and nothing is written.

Here are the sentences that commands make; those of problems, canvases and files of weights are
tested where they are made.
"""

import json

import pytest

from trm.checkpoints import SHIPPED


def right(a: int, b: int) -> float:
    return 1.0


@pytest.fixture(scope="module")
def folder(make_grid, tmp_path_factory):
    """Files to call commands with."""
    folder = tmp_path_factory.mktemp("refused")
    for name in ("file", "file.json", "none.jsonl"):
        (folder / name).touch()
    for name in ("problems.csv", "problems.jsonl"):
        (folder / name).write_text("a,b\n1,2\n")
    (folder / "x.jsonl").write_text("{}\n")
    (folder / "y.jsonl").touch()
    (folder / "c.csv").write_text("a,c\n1,2\n")
    (folder / "p.jsonl").write_text('{"id": "multiply-v1/1x1/000", "prediction": "1"}\n')
    for name, models, more in (
        ("one", ("small", "gpt"), {}),
        ("single", ("small",), {}),
        ("ternary", ("small",), {"task": {"base": 3}}),
    ):
        (folder / name).mkdir()
        grid = make_grid(dict.fromkeys(models, right), 1, 1, **more)
        (folder / name / "grid.json").write_text(json.dumps(grid))
    return folder


LONG = f"{'9' * 900}x{'8' * 900}"
SCORE = "benchmark score p.jsonl --suite multiply-v1 --up-to 2 --output D"
CALLS = [  # CKPT multiplies, ADDER adds, STEPPING attends, INT4 is in integers
    ("multiply", "For help: `trm --help`"),
    ("slove 1x2", ". Did you mean solve?"),
    ("solve 1x2 --chekpoint=c", ". Did you mean --checkpoint?"),
    ("solve 1x2 --temperature 1", "for GPTs, which write symbol by symbol"),
    ("solve 1x2 --temperature 0", "a temperature is a finite number above 0, not 0.0"),
    ("solve 1x2 --top-k 2", "only with --temperature symbols are drawn, so add it"),
    ("solve 1x2 --vote majorty", ". Did you mean majority?"),
    ("solve -3x4", "trm solve: -3x4 begins with a minus sign; numbers have none"),
    (f"render {LONG}", "at most 100,000 are drawn"),
    ("render 1x2 --layout latice", ". Did you mean lattice?"),
    ("render 12x34 --output nowhere/a.png", "--output nowhere/a.png: there is no folder nowhere"),
    ("render 12x34 --output a.txt", "argument --output: 'a.txt' does not end in .png, .svg, .gif"),
    ("render 12x34 --output .png", "argument --output: '.png' does not end in .png, .svg, .gif"),
    ("render 12x34 --output a.gif --step 2", "shows every step: leave out --step"),
    ("render", "the following arguments are required: problem"),
    ("solve 1+2", "'1+2' is no multiplication; write it like 123x456"),
    ("solve 1x2 --vews 4", "unrecognized arguments: --vews 4. Did you mean --views?"),
    ("inspect 1x2 --surest 3", "--surest 3. It is an option of trm solve, trm evaluate"),
    ("inspect 1x2 --output D --untrained", "no weights are written: leave out --untrained"),
    ("inspect --export a.html --row 1", "--export writes only the weights: leave out --row"),
    ("solve 1x2 --views 4 --symmetries r45", "argument --symmetries: 'r45' is none of e, r90, "),
    ("prove --basee=3", "unrecognized arguments: --basee=3. For help"),  # no option is near
    ("render 1x2 --basee=3", "unrecognized arguments: --basee=3. Did you mean --base?"),
    ("benchmark export --suit multiply-v1 --output D", ". Did you mean --suite?"),
    ("benchmark export --output D", "name a --suite: multiply-v1,"),
    ("benchmark score p.jsonl --output D", "name a --suite: multiply-v1,"),
    ("benchmark export --suite multiply-v1 --seed 7 --output D", "a secret from 4,294,967,296 up"),
    ("benchmark export --suite multiply-v1 --problems 7 --output D", "leave out --problems"),
    ("benchmark export --format trm --suite multiply-v1 --output D", "leave out --suite"),
    ("benchmark export --format trm --output D", "--format trm needs the layout of the worked"),
    ("benchmark export --format csv --output D", "argument --format: invalid choice: 'csv'"),
    ("benchmark export --format jsonl --layout column --digits 2 --output D", "and no other sizes"),
    (
        "benchmark export --format trm --layout lattice --digits-a 3 --digits-b 3 --width 4 "
        "--output D",
        "need a canvas of at least 4 x 6 (height x width), not 4 x 4",
    ),
    ("solve --input c.csv --output new/deep/o.jsonl", "no column 'b'"),
    ("solve 1x2 --devices 2", "on one device: use --devices 1"),
    ("solve 1x2 --checkpoint strange.ckpt", "there is no checkpoint strange.ckpt"),
    ("solve 3..4.. --checkpoint strange.ckpt", "there is no checkpoint strange.ckpt"),
    ("inspect 3..4.. --checkpoint strange.ckpt --output o", "there is no checkpoint strange.ckpt"),
    (f"solve {LONG} --checkpoint CKPT", "is more than 12,000 cells"),
    ("solve 1x2 --symmetries e,h --vote-per solution", "leave out --symmetries, --vote-per"),
    ("solve", "one of the three"),
    ("solve 1x2 --demo", "one of the three"),
    ("solve --demo --output demo", "a demo is watched: leave out --output"),
    ("evaluate --output= --digits-a 1 --digits-b 1", "argument --output: its value is empty: give"),
    ("solve --input= --output -", "argument --input: its value is empty"),
    ("solve 1x2 --checkpoint=", "argument --checkpoint: its value is empty"),
    ("benchmark export --suite multiply-v1 --output=", "argument --output: its value is empty"),
    ("solve 1x2 --nodes 2", "of a file, see --input, are solved together: leave out --nodes"),
    ("solve 1x2 --canvases --batch-size 4", "leave out --canvases, --batch-size"),
    ("solve --demo --nodes 2", "leave out --nodes"),
    ("solve --input problems.csv", "go together"),
    ("solve --input none.csv --output x.jsonl", "--input none.csv: there is no such file"),
    ("solve --input . --output x.jsonl", "--input . is a folder: give a file of problems"),
    ("solve --input problems.jsonl --output problems.jsonl", "the input itself"),
    ("render -5x3", "problem. Write it like 123x456; numbers have no minus sign"),
    ("evaluate --output D --digits-a 0", "'0' is not a range of lengths: from 1 up, the lower one"),
    ("evaluate --output D --digits-a 4..2", "'4..2' is not a range of lengths: from 1 up"),
    ("benchmark score . --suite multiply-v1 --output D", ". is a folder: give a file of predict"),
    ("analyse gap --output D", "the cells of a cell model read decided messages"),
    ("analyse ranks --checkpoint INT4 --output D", "no feed-forward weights in floating point"),
    ("solve --input problems.csv --output x.txt", "so name it .jsonl or .csv"),
    ("solve --input problems.csv --output x", "answers are JSON Lines or CSV, so name it"),
    ("solve --input problems.csv --output x.csv --canvases", "leave out --canvases"),
    ("solve --input problems.csv --output problems.csv", "is the input itself: choose another"),
    ("solve --input problems.csv --output x.jsonl --watch", "--watch"),
    ("solve --input - --output x.jsonl --devices 2", "one device"),
    ("solve 1x2 --checkpoint CKPT --views 3 --symmetries e,t --height 6 --width 9", "a square"),
    ("prove --check .", "is no table that can be checked: there is no such file"),
    ("prove --check nowhere", "trm prove: --check nowhere: there is no such folder"),
    ("prove --check . --search 9", "and no other options: leave out --search"),
    ("prove --checkpoint CKPT", "passes more than decided messages"),
    ("prove --checkpoint INT4 --as-computed", "never rounded: leave out --as-comp"),
    ("prove --checkpoint WRITTEN --smt a.smt2", "SMT-LIB is written for the layout standard"),
    ("prove --check . --smt a.smt2", "leave out --smt"),
    ("prove --smt none/a.smt2", "there is no folder"),
    ("evaluate --checkpoint CKPT --output D --digits 2", "--digits-a and --digits-b"),
    ("evaluate --checkpoint ADDER --output D --digits 2 --digits-a 2", "--digits and --addends;"),
    ("evaluate --output D --accelerator mps", "there is no device 'mps' to compute on: take cpu"),
    *(
        (f"{words} --steps 1000000000", "'1000000000' is not a whole number from 1 to 10,000")
        for words in ("solve 1x2", "evaluate --output D", "inspect 12x3 --output D")
    ),
    ("analyse probe --output D --steps 4,1000000000", "a row takes at most 10,000 supervision ste"),
    ("inspect", "give a problem, like 123x456, and --output DIR"),
    (f"inspect {LONG} --checkpoint CKPT --output D", "is more than 12,000 cells"),
    ("inspect 12x3 --output D --row 2", "--row 2: 12x3 has 1 row to fill in"),
    ("inspect 12x3 --output D --cell 40,1", "--cell 40,1 is not on the canvas"),
    (
        "inspect 987x65 --row 2 --cell 4,3 --output D --checkpoint STEPPING",
        "the cell 4,3 is blank and no token of this model, so it attends to nothing. Give a row "
        "and a column of these tokens: 1: 3-5, 7; 2: 2-5, 7; 3: 1-7",
    ),
    ("inspect 12x3 --output D --cell 4", "is not a cell; write row and column, like 4,3"),
    ("inspect 123x45 --output D --checkpoint STEPPING --patch 45x123", "lie in the same cells as"),
    ("inspect 123x45 --output D --lens", "the cells of a cell model read decided messages"),
    ("inspect 123x45 --output D --patch 124x45", "the cells of a cell model read decided messages"),
    ("inspect 12x3 --export m.safetensors", "leave out the problem"),
    ("inspect --export m.safetensors --untrained --figures grid", "leave out --figures"),
    ("inspect --export m.bin", "has to end in .safetensors"),
    ("inspect --export m.onnx --checkpoint INT4", "ONNX is not written of models in int"),
    ("inspect --export m.safetensors --checkpoint INT4 --dtype int4", "integers already"),
    ("inspect --export m.safetensors --checkpoint INT4 --untrained", "integers already"),
    (
        "inspect --export m.safetensors --checkpoint CKPT --dtype int8",
        "only a cell model is written in",
    ),
    ("inspect --export m.safetensors --dtype int8 --untrained", "leave out --untrained"),
    ("inspect --export m.safetensors --figures nowhere", "there is no nowhere"),
    ("inspect --checkpoint CKPT --export m.html", "models whose cells pass decided messages"),
    ("analyse probe --output D --checkpoint STEPPING --addends 2", "--addends"),
    ("analyse heads --output D", "the following arguments are required: --checkpoint"),
    (
        "analyse heads --output D --checkpoint SHIPPED",
        "GPTs have attention between cells: `trm models` lists them",
    ),
    ("analyse heads --output D --checkpoint STEPPING --kinds digt", "Did you mean digit?"),
    ("analyse heads --output D --checkpoint STEPPING --digits-a 3,4", "of one size"),
    (f"{SCORE} --seed 7", "a secret from 4,294,967,296 up"),
    ("report nowhere --output D", "there is no "),
    ("report . --output D", "in which trm evaluate has finished"),
    ("report file.json --output D", "is not what trm evaluate writes"),
    ("report single --output D", "at least two models"),
    ("report one ./one/grid.json --output D", "given more than once"),
    ("report one ternary --output D", "in base 3 by digits_a and digits_b"),
    ("report one x.jsonl --output D", "one after the other"),
    ("report x.jsonl --output D", "does not hold answers of trm solve --input as JSON Lines"),
    ("report none.jsonl --output D", "holds no solved problem"),
    ("report y.jsonl ./y.jsonl --output D", "one file of answers, given more than once"),
    ("report one --output file", "--output"),
    ("sweep blank.yaml --output D", "Did you mean studies/blanks.yaml?"),  # and not gpt_blanks
]


@pytest.mark.parametrize(("words", "said"), CALLS, ids=lambda text: text[:60])
def test_a_wrong_call_is_refused_in_one_sentence(
    command, folder, checkpoint, adder, repository, words, said
):
    files = {"CKPT": checkpoint, "ADDER": adder, "SHIPPED": SHIPPED}
    saved = {"STEPPING": "decimal-seed0", "INT4": "tiny-int4-seed0", "WRITTEN": "written-seed1"}
    files |= {k: repository / f"docs/models/{v}.safetensors" for k, v in saved.items()}
    before = sorted(folder.rglob("*"))
    ran = command(*(files.get(word, word) for word in words.split()), folder=folder, code=2)
    assert ran.out == ""
    assert said in " ".join(ran.err.split())
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) == 1 + ("--help`" in ran.err)
    assert len(ran.err) < 1000
    assert sorted(folder.rglob("*")) == before
