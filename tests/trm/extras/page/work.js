// What the page's own script makes of problems: `node work.js model.js` reads {about, problems, view} as
// JSON and prints for each the symbols of its canvas, the signals and the confidence of each cell, and
// the answer. With `state`, rows of cells with a symbol and signals, also the symbols and signals after
// each step from there to the fixed point; and what comes of a shaken canvas, and of each digit changed.
"use strict";

const { readFileSync } = require("node:fs");
const { alike, longestChain, modelOf, readProblem, workOut } = require(process.argv[2]);

const { about, problems, view, state } = JSON.parse(readFileSync(0, "utf8"));
const model = modelOf(about);

// Steps from a state to the fixed point: the cells after each.
function settle(canvas, first) {
  const states = [first];
  while (true) {
    const next = model.step(canvas, states.at(-1));
    const same = next.every((all, i) => all.every((cell, j) => alike(cell, states.at(-1)[i][j])));
    if (same) return states.slice(1);
    states.push(next);
  }
}

function healing({ canvas, cells }) {
  if (!state) return {};
  model.mostKnown = 50; // fewer than there are, so that some are computed again
  let seed = 1;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const from = state.map((all, i) => all.map(({ symbol, signals }, j) =>
    model.disturbed(cells[i][j], signals, symbol)));
  const ends = [];
  for (const [i, all] of cells.entries()) {
    for (const [j, { given }] of all.entries()) {
      if (!given) ends.push(settle(canvas, model.scribbled(cells, [i, j], "1", random)));
    }
  }
  ends.push(settle(canvas, model.shaken(cells, random)));
  const alone = (one) => one.map((all) => all.map(({ symbol, signals }) => ({ symbol, signals })));
  return {
    bound: longestChain(canvas),
    known: model.known.size,
    states: settle(canvas, from).map(alone),
    lengths: ends.map((states) => states.length),
    healed: ends.every((states) => !states.length || states.at(-1).every((all, i) =>
      all.every((cell, j) => alike(cell, cells[i][j])))),
  };
}

const found = problems.map((problem) => {
  const work = workOut(model, readProblem(about, problem), view);
  const { cells, value } = work;
  const of = (value) => cells.map((row) => row.map(value));
  const said = ({ ops }) => ops.flatMap((op) => op.outputs).find((one) => one.name === "symbol");
  return {
    symbols: of((cell) => cell.symbol),
    signals: of((cell) => cell.signals),
    sure: of((cell) => cell.sure),
    probability: of((cell) => said(cell).probability),
    ...healing(work),
    answer: value === null ? null : String(value),
  };
});
process.stdout.write(JSON.stringify(found));
