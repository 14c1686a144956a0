"""Files of problems, solved by a checkpoint trained for some steps; stopped, resumed, shared."""

import csv
import gzip
import io
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lightning.fabric import Fabric

from canvas.problems import Problems
from trm import batch
from trm.batch import Job, solve, work_through
from trm.checkpoints.loading import load_solver
from trm.io.files import alone
from trm.io.problem_files import Entry
from trm.solving.solution import GUESSED, VOTED
from trm.solving.voting import Voting

PAIRS = [(a, b) for a in range(1, 18) for b in (3, 47)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines = [f"{a},{b},#{i}" for i, (a, b) in enumerate(PAIRS)]
    lines[5], lines[17] = "no,problem,#5", "1,2"
    file = tmp_path / "problems.csv"
    file.write_text("\n".join(["a,b,name", *lines, ""]))
    return file


def records_of(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_line_gets_the_record_of_its_solution(command, checkpoint, source, tmp_path):
    """Records of `trm predict` have `exact` as well, which takes the finished working."""
    output = tmp_path / "answers.jsonl"
    words = ("--input", source, "--output", output, "--canvases")
    ran = command("solve", "--checkpoint", checkpoint, *words, code=1)
    assert "34 records: " in ran.err
    assert "2 lines with an error" in ran.err
    records = records_of(output)
    assert [record.pop("line") for record in records] == list(range(2, 2 + len(PAIRS)))
    assert {i for i, record in enumerate(records) if record["error"]} == {5, 17}
    assert (records[5]["a"], records[5]["name"]) == ("no", "#5")
    solver = load_solver(checkpoint)
    for i, record in enumerate(records):
        if i in (5, 17):
            assert record["answer"] is record["correct"] is None
            continue
        carried = [record.pop(name) for name in ("a", "b", "name")]
        assert carried == [*map(str, PAIRS[i]), f"#{i}"]
        problem = Problems.from_ints([PAIRS[i]])
        (alone,) = solver.solve(problem)
        expected = alone.record(1)
        assert next(solve(solver, [PAIRS[i]], canvases=True)) == expected
        left_out = ("line", "exact", *VOTED, *GUESSED)
        data = {name: expected[name] for name in expected if name not in left_out}
        near = ("confidence", "row_confidence")
        assert record == data | {name: pytest.approx(data[name], abs=1e-4) for name in near}
        assert list(record) == list(data)
        assert record["correct"] == (record["answer"] == str(PAIRS[i][0] * PAIRS[i][1]))
        assert record["problem"] == f"{PAIRS[i][0]} x {PAIRS[i][1]}"
        assert record["in_range"] == (PAIRS[i][1] < 10)
        outside = "outside the lengths trained on (1 to 2 x 1 to 1 digits)"
        assert (outside in (record["uncalibrated_reason"] or "")) == (PAIRS[i][1] > 9)
    assert {name.name for name in tmp_path.iterdir()} == {"answers.jsonl", "problems.csv"}


def test_a_pipe_goes_from_standard_input_to_standard_output(command, checkpoint, monkeypatch):
    lines = b'{"a": 12, "b": 3}\n{"a": -1, "b": 3}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    ran = command("solve", "--checkpoint", checkpoint, "--input", "-", "--output", "-", code=1)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    found = [(row["line"], row["operands"], row["a"], bool(row["error"])) for row in rows]
    assert found == [(1, ["12", "3"], 12, False), (2, None, -1, True)]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_finished_units_are_not_solved_again(
    command, checkpoint, source, tmp_path, monkeypatch, ending
):
    words = ("solve", "--checkpoint", checkpoint, "--input", source, "--batch-size", 8, "--quiet")
    whole, output = tmp_path / f"whole.{ending}", tmp_path / f"cut.{ending}"
    command(*words, "--output", whole, code=1)
    answer, asked = batch.answer, []

    def failing(solver, entries, *more):
        asked.append(entries[0].line)
        if len(asked) == 4:
            raise OSError(28, "No space left on device")
        return answer(solver, entries, *more)

    monkeypatch.setattr(batch, "answer", failing)
    ran = command(*words, "--output", output, code=2)
    assert "No space left" in ran.err
    assert not output.exists()
    assert len(list(tmp_path.glob(f".cut.{ending}.*.parts/*.json"))) == 3
    command(*words, "--output", output, code=1)
    assert asked == [2, 10, 18, 26, 26, 34]
    assert output.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob(".*"))


def rows_of(file: Path) -> list[dict]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_name_in_csv_gets_the_values_that_fit_a_column(command, checkpoint, source, tmp_path):
    text = source.read_text().replace("#3", '"#3, ""x"""')
    source.write_text(text + f"{'9' * 40},3,long\n")
    words = ("solve", "--checkpoint", checkpoint, "--views", 2, "--quiet", "--batch-size", 8)
    words += ("--input", source, "--output")
    for name in ("x.jsonl", "x.csv"):
        command(*words, tmp_path / name, code=1)
    records, rows = records_of(tmp_path / "x.jsonl"), rows_of(tmp_path / "x.csv")
    assert len(rows) == len(records) == len(PAIRS) + 1
    assert {"votes", "operands", "row_confidence", "row_steps", "canvas"}.isdisjoint(rows[0])
    assert {"line", "problem", "answer", "confidence", "views", "error"} < {*rows[0]}
    assert {"a", "b", "name"} < {*rows[0]}
    for row, record in zip(rows, records, strict=True):
        for name, value in row.items():
            held = record.get(name)
            text = held if isinstance(held, str) else json.dumps(held)
            assert value == ("" if held is None else text)
    assert rows[3]["name"] == '#3, "x"'
    assert rows[-1]["a"] == "9" * 40
    command(*words, tmp_path / "x.csv.gz", code=1)
    packed = gzip.decompress((tmp_path / "x.csv.gz").read_bytes())
    assert packed == (tmp_path / "x.csv").read_bytes()
    assert not list(tmp_path.glob(".*"))
    again = ("solve", "--checkpoint", checkpoint, "--quiet", "--input", tmp_path / "x.csv")
    command(*again, "--output", tmp_path / "again.csv", code=1)
    again = rows_of(tmp_path / "again.csv")
    assert [row["answer"] for row in again[:5]] == [row["answer"] for row in rows[:5]]


def test_a_column_named_like_a_key_of_records_is_renamed(command, checkpoint, tmp_path):
    """Also of a field that this call does not write, such as those of a vote."""
    source = tmp_path / "problems.csv"
    source.write_text("a,b,views,views_asked,line,canvas\n1,2,x,y,z,__\n")
    for output in (tmp_path / "x.jsonl", tmp_path / "x.csv"):
        command("solve", "--checkpoint", checkpoint, "--input", source, "--output", output)
    (record,), (row,) = records_of(tmp_path / "x.jsonl"), rows_of(tmp_path / "x.csv")
    for found in (record, row):
        names = ("input_views", "input_views_asked", "input_line", "input_canvas")
        assert [found[name] for name in names] == ["x", "y", "z", "__"]
        assert {"views", "views_asked", "canvas"}.isdisjoint(found)


def test_a_pipe_can_go_to_csv(command, checkpoint, tmp_path, monkeypatch):
    lines = b'{"a": 12, "b": 3, "tag": "\xc3\xa4"}\n{"a": 1, "b": 3, "more": [1], "last": 0.5}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    words = ("--input", "-", "--output", tmp_path / "x.csv", "--quiet")
    command("solve", "--checkpoint", checkpoint, *words)
    first, second = rows_of(tmp_path / "x.csv")
    assert list(first)[-4:] == ["a", "b", "tag", "last"]
    assert (first["tag"], first["last"], second["tag"], second["last"]) == ("ä", "", "", "0.5")
    assert (first["problem"], second["problem"]) == ("12 x 3", "1 x 3")


class OneOfTwo(Fabric):
    """One of two processes, which here are threads."""

    world_size = 2
    meet = threading.Barrier(2)

    def __init__(self, rank: int) -> None:
        super().__init__(accelerator="cpu")
        self.rank = rank

    global_rank = property(lambda self: self.rank)
    is_global_zero = property(lambda self: self.rank == 0)

    def barrier(self, name: str | None = None) -> None:
        self.meet.wait(60)


def test_two_processes_give_the_records_of_one(checkpoint, source, tmp_path, monkeypatch):
    solver = load_solver(checkpoint, voting=Voting(views=3))
    one = Job(solver, checkpoint, source, tmp_path / "one.jsonl", batch_size=8)
    assert str(work_through(one, "cpu", quiet=True)).startswith("34 records")
    two, fabrics = one._replace(output=tmp_path / "two.jsonl"), [OneOfTwo(0), OneOfTwo(1)]
    monkeypatch.setattr(batch, "open_devices", lambda *_: fabrics.pop())
    with ThreadPoolExecutor() as both:
        done = list(both.map(lambda _: work_through(two, "cpu", quiet=True), range(2)))
    assert sum(summary is None for summary in done) == 1
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert not list(tmp_path.glob(".*"))
    table = one._replace(output=tmp_path / "two.csv")
    fabrics += [OneOfTwo(0), OneOfTwo(1)]
    with ThreadPoolExecutor() as both:
        list(both.map(lambda _: work_through(table, "cpu", quiet=True), range(2)))
    lines = [str(record["line"]) for record in records_of(tmp_path / "one.jsonl")]
    assert [row["line"] for row in rows_of(tmp_path / "two.csv")] == lines


def test_python_yields_the_same_records_as_they_are_solved(checkpoint):
    drawn = []

    def endless():
        n = 0
        while True:
            n += 1
            drawn.append(n)
            yield n, 3

    solver = load_solver(checkpoint)
    records = solve(solver.with_voting(Voting(views=2)), endless(), batch_size=4)
    first = [next(records) for _ in range(5)]
    assert [(r["line"], r["operands"]) for r in first] == [(n, [str(n), "3"]) for n in range(1, 6)]
    assert len(drawn) <= 9
    assert all(r["votes"] and r["views"] <= 2 and r["canvas"] is None for r in first)
    wrong = [(-2, 3), (-1, 3), (), (4,), (2, 3, 4), (True, 3), (1.5, 3), (7, 8)]
    *bad, good = solve(solver, wrong, canvases=True)
    assert [record["line"] for record in bad] == list(range(1, 8))
    assert all(r["error"] and r["answer"] is r["correct"] is None for r in bad)
    assert "whole numbers from 0 up" in bad[0]["error"]
    assert "takes 2 operands, not 3" in bad[4]["error"]
    assert (good["error"], good["problem"], good["canvas"].count("*")) == (None, "7 x 8", 1)


def test_a_note_names_views_that_were_not_trained_on(command, checkpoint):
    words, untrained = ("solve", "--checkpoint", checkpoint, "--views", 3, "12x3"), "not trained on"
    assert untrained not in " ".join(command(*words).out.split())
    for more in (("--symmetries", "all"), ("--symmetries", "e,r90", "--height", 9, "--width", 9)):
        out = " ".join(command(*words, *more).out.split())
        assert "shown in symmetries that it was not trained on" in out
        assert "agreement" in out


def test_one_call_at_a_time_writes_a_file(command, checkpoint, source, tmp_path):
    words = ("solve", "--checkpoint", checkpoint, "--output", tmp_path / "x.jsonl", "--input")
    with alone(tmp_path / "x.jsonl"):
        ran = command(*words, source, code=2)
    assert "another process is at work on" in ran.err
    (tmp_path / ".x.jsonl.0123456789ab.parts").mkdir()  # of other settings
    (tmp_path / ".x.jsonl.4711").touch()
    os.utime(tmp_path / ".x.jsonl.4711", (0, 0))  # long ago
    command(*words, source, code=1)
    assert not list(tmp_path.glob(".*"))


def test_gzip_files_are_read_and_written(command, checkpoint, source, tmp_path):
    words = ("solve", "--checkpoint", checkpoint, "--quiet", "--input")
    packed, plain = tmp_path / "problems.csv.gz", tmp_path / "plain.jsonl"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    command(*words, source, "--output", plain, code=1)
    for output in (tmp_path / "x.jsonl.gz", tmp_path / "y.jsonl.gz"):
        command(*words, packed, "--output", output, code=1)
        assert gzip.decompress(output.read_bytes()) == plain.read_bytes()
    assert output.read_bytes() == (tmp_path / "x.jsonl.gz").read_bytes()
    command("report", output, "--output", tmp_path / "trust")
    packed.write_bytes(packed.read_bytes()[:-9])
    ran = command(*words, packed, "--output", tmp_path / "z.jsonl.gz", code=2)
    assert "problems.csv.gz is damaged" in ran.err
    assert not (tmp_path / "z.jsonl.gz").exists()


def test_problems_are_texts_or_operands(checkpoint):
    solver = load_solver(checkpoint)
    texts, pairs = (solve(solver, problems) for problems in (["12x3", "7 * 8"], [(12, 3), (7, 8)]))
    assert list(texts) == list(pairs)
    first, *errors = solve(solver, ["12x3", "12", "12+3", 5, (1, 2, 3)])
    assert first["error"] is None
    assert [record["problem"] for record in errors] == ["12", "12+3", None, None]
    told = ["is no multiplication", "is no multiplication", "5 is not a problem: give a text like"]
    for record, part in zip(errors, [*told, "takes 2 operands, not 3"], strict=True):
        assert part in record["error"]
        assert record["answer"] is None
    with pytest.raises(ValueError, match=r"a list .* like \['12x3'\], not one text"):
        solve(solver, "12x3")
    with pytest.raises(ValueError, match=r"a list .* like \['123x45'\], not 12"):
        solve(solver, 12)  # type: ignore[arg-type]


def test_a_text_file_has_a_problem_in_each_line(command, checkpoint, tmp_path):
    (tmp_path / "problems.txt").write_text("12x3\n\n7 * 8\n12\n")
    words = ("solve", "--checkpoint", checkpoint, "--quiet", "--input", "problems.txt")
    command(*words, "--output", "answers.jsonl", folder=tmp_path, code=1)
    records = records_of(tmp_path / "answers.jsonl")
    found = [(one["line"], one["problem"]) for one in records]
    assert found == [(1, "12 x 3"), (3, "7 x 8"), (4, "12")]
    assert "'12' is no multiplication" in records[2]["error"]
    ran = command(*words, "--output", "answers.txt", folder=tmp_path, code=2)
    assert "name it .jsonl or .csv" in ran.err


def test_a_slow_pipe_gets_answers_before_its_end(checkpoint):
    """Each problem is written only after the record of the one before; no batch is ever full."""
    job = Job(load_solver(checkpoint, device="cpu"), checkpoint, Path("-"), Path("-"))
    (problems, write), (read, records) = os.pipe(), os.pipe()
    with (
        ThreadPoolExecutor() as pool,
        os.fdopen(problems, "rb") as source,
        os.fdopen(records, "w") as sink,
        os.fdopen(read) as found,
        os.fdopen(write, "w") as given,
    ):
        running = pool.submit(batch.stream, job, source, sink)
        for line, problem in (("a,b\n12,3", "12 x 3"), ("5,6", "5 x 6"), ("x,7", None)):
            print(line, file=given, flush=True)
            assert json.loads(found.readline())["problem"] == problem
        given.close()
        assert running.result().errors == 1


def test_entries_of_a_pipe_come_in_order_and_before_an_error():
    def entries():
        for line in range(5):
            yield Entry(line)
        raise ValueError("the data are damaged")

    batches = batch._timely_batches(entries(), 2)
    found = [next(batches) for _ in range(3)]
    assert [entry.line for one in found for entry in one] == [0, 1, 2, 3, 4]
    assert max(map(len, found)) == 2
    with pytest.raises(ValueError, match="the data are damaged"):
        next(batches)
