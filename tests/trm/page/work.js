// What the page's own script makes of problems: `node work.js model.js` reads {about, problems, view} as
// JSON and prints for each the symbols of its canvas, the signals and the confidence of each cell, and
// the answer.
"use strict";

const { readFileSync } = require("node:fs");
const { CellModel, readProblem, workOut } = require(process.argv[2]);

const { about, problems, view } = JSON.parse(readFileSync(0, "utf8"));
const model = new CellModel(about);
const found = problems.map((problem) => {
  const { cells, value } = workOut(model, readProblem(about, problem), view);
  const of = (value) => cells.map((row) => row.map(value));
  const said = ({ ops }) => ops.flatMap((op) => op.outputs).find((one) => one.name === "symbol");
  return {
    symbols: of((cell) => cell.symbol),
    signals: of((cell) => cell.signals),
    sure: of((cell) => cell.sure),
    probability: of((cell) => said(cell).probability),
    answer: value === null ? null : String(value),
  };
});
process.stdout.write(JSON.stringify(found));
