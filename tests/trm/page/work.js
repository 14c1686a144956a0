// What the page's own script makes of problems: `node work.js model.js` reads {about, problems} as JSON
// and prints for each the symbols of its page, how sure each cell is, and the answer that is read off.
"use strict";

const { readFileSync } = require("node:fs");
const { LocalModel, answerCells, drawPage } = require(process.argv[2]);

const { about, problems } = JSON.parse(readFileSync(0, "utf8"));
const model = new LocalModel(about);
const found = problems.map(([a, b]) => {
  const cells = model.work(drawPage(about, a, b));
  const of = (value) => cells.map((row) => row.map(value));
  const symbols = of((cell) => cell.symbol);
  const said = ({ heads }) => heads.flatMap((head) => head.says).find((one) => one.name === "symbol");
  return {
    symbols,
    sure: of((cell) => cell.sure),
    probability: of((cell) => said(cell).probability),
    answer: answerCells(about, symbols).map(([i, j]) => about.symbols[symbols[i][j]]).join(""),
  };
});
process.stdout.write(JSON.stringify(found));
