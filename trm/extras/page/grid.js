// Table of accuracy by lengths, which fills up while the chosen model solves random problems.
"use strict";

const Z = 1.96; // of a 95 % interval

let measuring = 0; // number of the last measurement that was begun

function drawNumber(digits) {
  const all = Array.from({ length: digits }, (_, i) => Math.floor(Math.random() * (i ? 10 : 9)) + Number(!i));
  return BigInt(all.join(""));
}

// Numbers of a problem of row and column of the table: first and second number's digits, or the
// number of addends and their digits. The larger number of a difference is the first.
function drawProblem(about, row, column) {
  if (about.sign === "-") return [drawNumber(row), drawNumber(column)].sort((a, b) => (a < b ? 1 : -1));
  if (about.sign !== "+") return [drawNumber(row), drawNumber(column)];
  return Array.from({ length: column }, () => drawNumber(row));
}

// Wilson's interval of a share, in per cent.
function interval(right, n) {
  const share = right / n;
  const middle = share + Z * Z / (2 * n);
  const half = Z * Math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n));
  return [middle - half, middle + half].map((one) => (100 * one / (1 + Z * Z / n)).toFixed(1));
}

function fill(cell, size, right, n) {
  cell.textContent = Math.round(100 * right / n);
  cell.style.setProperty("--share", `${100 * right / n}%`);
  cell.title = `${right} of ${n} correct, 95 % interval ${interval(right, n).join(" to ")} %`;
  cell.ariaLabel = `${size}: ${cell.title}`;
}

// A cell of the table shows its interval when it is pointed at, tapped, or reached by arrow keys.
function answerTo(cells) {
  for (const cell of cells.flat()) {
    const tell = () => { byId("interval").textContent = cell.ariaLabel ?? ""; };
    cell.tabIndex = -1;
    cell.onmouseenter = tell;
    cell.onclick = cell.onfocus = () => {
      for (const one of cells.flat()) one.tabIndex = one === cell ? 0 : -1;
      tell();
    };
    cell.onkeydown = (event) => {
      const next = neighbour(event.key, cell, cells);
      if (!next) return;
      event.preventDefault();
      next.focus();
    };
  }
  cells[0][0].tabIndex = 0;
}

const rest = () => new Promise((go) => setTimeout(go));

async function measure() {
  const [of, mine] = [model, ++measuring];
  const { about } = of;
  const [longest, n] = ["longest", "number"].map((id) => Number(byId(id).value));
  const upright = views.find(([name]) => name === "e")[1];
  const [most, adds] = [about.operands[1], about.sign === "+"];
  const columns = Array.from({ length: longest }, (_, i) => i + 1)
    .filter((column) => !adds || (column > 1 && column <= most));
  const rows = Array.from({ length: longest }, (_, i) => i + 1);
  const [down, across] = about.ranges;
  const trained = (row, column) => row <= down[1] && column <= across[1] ? "known" : "";
  const cells = rows.map((row) => columns.map((column) => make("td", "", trained(row, column))));
  const head = make("tr", [make("td", ""), ...columns.map((column) => headed("col", column))]);
  byId("grid").replaceChildren(head, ...rows.map((row, i) => make("tr", [headed("row", row), ...cells[i]])));
  for (const name of ["grid", "done"]) byId(name).hidden = false;
  byId("interval").textContent = "";
  answerTo(cells);
  const axes = adds ? "Down: digits of the addends; across: number of addends"
    : "Down: digits of the first number; across: of the second";
  byId("legend").textContent = `${about.name}. ${axes}. Percent of ${n} random problems with a correct `
    + "answer; outlined: sizes of training. Point at a cell, tap it, or use the arrow keys for its interval.";
  byId("done").max = rows.length * columns.length * n;
  byId("done").value = 0;
  byId("start").textContent = "Again";
  let [correct, all] = [0, 0];
  for (const [i, row] of rows.entries()) {
    for (const [j, column] of columns.entries()) {
      const size = adds ? `${column} numbers of ${row} digits` : `${row} x ${column} digits`;
      let right = 0;
      for (let number = 1; number <= n; number++) {
        const numbers = drawProblem(about, row, column);
        right += Number(workOut(of, numbers, upright).value === rightAnswer(about, numbers));
        fill(cells[i][j], size, right, number);
        byId("done").value++;
        await rest();
        if (mine !== measuring) return; // another one has begun
      }
      correct += right;
      all += n;
    }
  }
  announce(`${about.name}: ${correct} of ${all} random problems correct.`);
}

byId("start").onclick = measure;
