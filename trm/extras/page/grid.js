// Table of accuracy by lengths, which fills up while the chosen model solves random problems.
"use strict";

const Z = 1.96; // of a 95 % interval

let measuring = 0; // number of the last measurement that was begun

function drawNumber(digits, base) {
  const draw = (_, i) => Math.floor(Math.random() * (i ? base : base - 1)) + Number(!i);
  return Array.from({ length: digits }, draw).reduce((value, digit) => value * BigInt(base) + BigInt(digit), 0n);
}

// Numbers of a problem of row and column of the table: first and second number's digits, those of p
// and the second number, or the number of addends and their digits. The larger number of a
// difference is the first.
function drawProblem({ sign, base }, row, column) {
  const draw = (digits) => drawNumber(digits, base);
  if (sign === "+") return Array.from({ length: column }, () => draw(row));
  const [one, other] = [draw(row), draw(column)];
  if (sign === "%") return [draw(row) % one, other, one];
  return sign === "-" && one < other ? [other, one] : [one, other];
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
  const [most, n] = ["longest", "number"].map((id) => Number(byId(id).value));
  const longest = Math.min(most, OPERATIONS[about.sign].longest);
  const upright = views.find(([name]) => name === "e")[1];
  const [addends, adds] = [about.operands[1], about.sign === "+"];
  const columns = Array.from({ length: longest }, (_, i) => i + 1)
    .filter((column) => !adds || (column > 1 && column <= addends));
  const rows = Array.from({ length: longest }, (_, i) => i + 1)
    .filter((row) => about.sign !== "%" || row > 1); // p is at least 2
  const [down, across] = about.ranges;
  const trained = (row, column) => row <= down[1] && column <= across[1] ? "known" : "";
  const cells = rows.map((row) => columns.map((column) => make("td", "", trained(row, column))));
  const head = make("tr", [make("td", ""), ...columns.map((column) => headed("col", column))]);
  byId("grid").replaceChildren(head, ...rows.map((row, i) => make("tr", [headed("row", row), ...cells[i]])));
  for (const name of ["grid", "done"]) byId(name).hidden = false;
  byId("interval").textContent = "";
  answerTo(cells);
  const first = about.sign === "%" ? "third" : "first";
  const axes = adds ? "Down: digits of the addends; across: number of addends"
    : `Down: digits of the ${first} number; across: of the second`;
  const inBase = about.base === 10 ? "" : `, in base ${about.base}`;
  byId("legend").textContent = `${about.name}. ${axes}${inBase}. Percent of ${n} random problems with a correct `
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
