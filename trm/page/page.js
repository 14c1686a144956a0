// What people see and do: the numbers, the page that fills up, and all that one cell sees and decides.
"use strict";

const LONGEST = 60; // digits of a number
const FRAMES = 25; // a second, while it plays
const UNSURE = 0.9; // a cell that decides something less probable is marked
const ARROWS = { right: "→", above: "↑", above_left: "↖", above_right: "↗", own: "•" };
const ROWS = ["–", "1st number", "2nd number", "product", "sum", "later product", "later sum"];
const MEANINGS = {
  symbol: "what it writes",
  multiplier: "the digit of the second number that this row multiplies by; ✱: none",
  multiplicand: "the digit of the first number that is multiplied here",
  product: "a digit of the row's product; ✱: a 0 that is not added, ✱✱: one that is not written",
  carry: "what multiplying carries to the left",
  sum_carry: "what adding carries to the left",
  addend: "the digit that is added further down",
  sum: "a digit of the sum so far; ✱: a sum of 0",
  row: "which kind of row this is",
  number: "a digit of the numbers on top; ✱: to the left of their last digit",
  column_multiplier: "a digit of the second number on its way straight down",
  column_multiplicand: "a digit of the first number on its way straight down",
  diagonal: "a digit of the second number on its way down to the right",
  passing: "a digit of the first number on its way down to the left",
  arriving: "the digit of the second number that has come here",
  comes: "whether a digit of the second number comes here, 0 straight down, 1 from the left",
  zero: "whether the first number is 0",
  adds: "whether there is a sum above",
  total: "whether this row is the total",
};

const byId = (id) => document.getElementById(id);
const about = JSON.parse(byId("model").textContent);
const model = new LocalModel(about);
const adds = about.sign === "+";
let work = null; // all that cells decide, which of them are the answer, the order of writing
let at = 0; // how many cells have been worked out
let chosen = null; // the cell that is looked at, [row, column]; null: the last one worked out
let playing = false;

function make(tag, content, kind = "") {
  const element = document.createElement(tag);
  element.append(...[content].flat());
  element.className = kind;
  return element;
}

const spoken = (name) => name.replaceAll("_", " ");
const percent = (p) => (p > 0.9999 ? "> 99.99 %" : `${(100 * p).toFixed(2)} %`);

function signOf(symbol) {
  const character = about.symbols[symbol];
  return { _: "", ".": "", "*": "×" }[character] ?? character;
}

function label(name, value) {
  if (name === "symbol") return signOf(value) || "blank";
  if (name === "row") return ROWS[value];
  if (about.codes.includes(name)) return String(value);
  if (!name || model.counts.get(name) === 2) return value ? "yes" : "no";
  if (value === 0) return "–";
  return value > 10 ? "✱".repeat(value - 10) : String(value - 1);
}

function message(name, value) {
  const element = make("span", [`${spoken(name)} `, make("b", label(name, value))], "message");
  element.title = MEANINGS[name] ?? "";
  return element;
}

function read(id) {
  const digits = byId(id).value.replaceAll(/[\s,_']/g, "").replace(/^0+(?=.)/, "");
  if (!/^[0-9]+$/.test(digits)) throw new Error("Write each number in digits alone, like 2539.");
  if (digits.length <= LONGEST) return digits;
  throw new Error(`A number of ${digits.length} digits is too long here: take up to ${LONGEST}.`);
}

function begin(finished) {
  byId("wrong").textContent = "";
  try {
    const [a, b] = ["a", "b"].map(read);
    const cells = model.work(drawPage(about, a, b));
    const answer = answerCells(about, cells.map((row) => row.map((cell) => cell.symbol)));
    work = { a, b, cells, answer, order: [] };
    history.replaceState(null, "", `#${a}${adds ? "+" : "x"}${b}`);
  } catch (error) {
    byId("wrong").textContent = error.message;
    return;
  }
  drawTable();
  at = finished ? work.order.length : 0;
  play(!finished);
  show();
}

function drawTable() {
  const rows = work.cells.map((cells) => make("tr", cells.map(() => make("td", ""))));
  work.table = rows.map((row) => [...row.cells]);
  for (const [row, cells] of work.cells.entries()) {
    for (const [column, cell] of [...cells.entries()].reverse()) {
      const shown = work.table[row][column];
      cell.turn = cell.given ? 0 : work.order.push([row, column]);
      shown.onmouseenter = () => choose(row, column);
      shown.onclick = shown.onfocus = () => play(false) || choose(row, column);
    }
  }
  byId("canvas").replaceChildren(...rows);
  byId("canvas").style.setProperty("--columns", work.cells[0].length);
  byId("at").max = work.order.length;
}

function choose(row, column) {
  chosen = [row, column];
  show();
}

function show() {
  const { cells, order, table, answer } = work;
  const finished = at === order.length;
  for (const [row, shown] of table.entries()) {
    for (const [column, cell] of cells[row].entries()) {
      const text = cell.turn > at ? "" : signOf(cell.symbol);
      const written = cell.least < UNSURE ? "filled unsure" : "filled";
      if (shown[column].textContent !== text) shown[column].textContent = text;
      shown[column].className = cell.given ? text && "given" : cell.turn > at ? "mask" : written;
      shown[column].tabIndex = -1;
    }
  }
  if (finished) for (const [row, column] of answer) table[row][column].classList.add("answer");
  const [row, column] = chosen || (finished && answer[0]) || order[Math.max(at - 1, 0)];
  const here = table[row][column];
  here.classList.add("chosen");
  here.tabIndex = 0;
  if (playing) byId("scroll").scrollLeft = here.offsetLeft - byId("scroll").clientWidth / 2;
  for (const { name, step } of about.ways) {
    if (step) table[row + step[0]]?.[column + step[1]]?.classList.add(name);
  }
  byId("at").value = at;
  byId("count").textContent = `${at} of ${order.length} cells`;
  showCell(row, column);
  showAnswer(finished);
}

function showCell(row, column) {
  const { cells } = work;
  const cell = cells[row][column];
  const done = cell.turn <= at;
  const place = `Row ${row + 1}, column ${cells[0].length - column} from the right`;
  const given = `given, ${signOf(cell.symbol) || "blank"}`;
  const written = done ? `writes ${signOf(cell.symbol) || "nothing"}` : "is still to be worked out";
  const own = make("td", cell.given ? given : "to be filled in");
  const sees = [make("tr", [make("th", "itself"), own])];
  for (const { name, step, fields } of about.ways.filter((way) => way.step)) {
    const from = cells[row + step[0]]?.[column + step[1]]?.fields;
    const said = from ? fields.map((field) => message(field, from[field])) : "no cell is there";
    sees.push(make("tr", [make("th", `${ARROWS[name]} ${spoken(name)}`, name), make("td", said)]));
  }
  const parts = [make("h2", `${place}: ${cell.given ? given : written}`)];
  parts.push(make("h3", "What it sees"), make("table", sees));
  if (done) {
    const heading = make("tr", ["it decides", "probability", "margin"].map((one) => make("th", one)));
    heading.title = "margin: how far a logit is above the next";
    const decided = cell.heads.map(decisions).reverse().flat();
    const sure = `How sure it says it is that all of this is right: ${percent(cell.sure)}.`;
    parts.push(make("h3", "What it makes of that"));
    parts.push(make("table", [heading, ...decided], "decided"), make("p", sure));
  }
  byId("cell").replaceChildren(...parts);
}

// What one head says, and, where cells work in steps, what it has read.
function decisions({ says, seen }, number) {
  const { reads, of } = about.heads[number];
  const rows = says.map(({ name, value, probability, margin }) => {
    const figures = [percent(probability), margin.toFixed(1)].map((text) => make("td", text));
    return make("tr", [make("td", message(name, value)), ...figures]);
  });
  if (!reads) return rows;
  const from = about.ways.flatMap(({ name }, way) => of[way].map((field, i) =>
    `${ARROWS[name]} ${spoken(field) || "a cell"} ${label(field, seen[way][i])}`));
  if (reads.includes("token")) from.unshift("its symbol");
  const all = make("td", `from ${from.join(", ")}`);
  all.colSpan = 3;
  return [...rows, make("tr", all, "from")];
}

function showAnswer(finished) {
  const { a, b, answer, cells } = work;
  const text = answer.map(([row, column]) => signOf(cells[row][column].symbol) || "?").join("");
  const right = String(adds ? BigInt(a) + BigInt(b) : BigInt(a) * BigInt(b));
  const verdict = text === right ? "right, as exact arithmetic says" : `wrong: it is ${right}`;
  const said = finished ? `${text || "no number"} (${verdict})` : "…";
  byId("answer").textContent = `${a} ${adds ? "+" : "×"} ${b} = ${said}`;
  byId("answer").className = finished && text !== right ? "bad" : "";
}

function play(on) {
  playing = on;
  chosen = null;
  byId("play").textContent = on ? "Pause" : "Play";
}

function go(number) {
  play(false);
  at = Math.min(Math.max(number, 0), work.order.length);
  show();
}

let due = 0; // cells, and part of one
function tick() {
  due = playing ? due + 2 ** byId("speed").value / FRAMES : 0;
  if (due < 1) return;
  at = Math.min(at + Math.floor(due), work.order.length);
  due %= 1;
  if (at === work.order.length) play(false);
  show();
}

function fromAddress() {
  const found = /^#([0-9]+)(?:x|\*|\+|×|%C3%97)([0-9]+)$/i.exec(location.hash);
  if (found) [byId("a").value, byId("b").value] = found.slice(1);
  begin(Boolean(found));
}

byId("problem").onsubmit = (event) => event.preventDefault() || begin(false);
byId("back").onclick = () => go(at - 1);
byId("on").onclick = () => go(at + 1);
byId("at").oninput = (event) => go(Number(event.target.value));
byId("play").onclick = () => {
  if (at === work.order.length) at = 0;
  play(!playing);
  show();
};
byId("canvas").onmouseleave = () => {
  chosen = null;
  show();
};
byId("canvas").onkeydown = (event) => {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  const { cellIndex, parentElement } = event.target;
  work.table[parentElement.rowIndex + step[0]]?.[cellIndex + step[1]]?.focus();
};

byId("sign").textContent = adds ? "+" : "×";
const inputs = Number(about.proof?.windows).toLocaleString("en");
byId("about").textContent = [
  `${about.parameters.toLocaleString("en")} parameters, trained on numbers of ${about.trained}.`,
  "A cell sees its own symbol and what its neighbours have decided, nothing else.",
  about.proof?.verdict === "proved"
    ? `It was run on all ${inputs} inputs that it can ever meet, so it is right at every length.`
    : "Nothing is proved of it: it may be wrong.",
  "It computes here, in your browser; look into any cell.",
].join(" ");
onhashchange = fromAddress;
fromAddress();
setInterval(tick, 1000 / FRAMES);
