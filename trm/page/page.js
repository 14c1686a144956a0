// User interface: the problem, canvases that fill up, and the inputs and decisions of one cell.
"use strict";

const FRAMES = 25; // a second, while it plays
const SLOWER = 2; // a step of all cells takes 2 ** SLOWER times as long as a cell
const UNSURE = 0.9; // a cell with a decision less probable than this is marked
const ARROWS = { right: "→", above: "↑", above_left: "↖", above_right: "↗", own: "•" };
const BARS = "▁▂▃▄▅▆▇█"; // shares of attention
const ROWS = ["–", "1st number", "2nd number", "product", "sum", "later product", "later sum"];
const MEANINGS = {
  symbol: "the symbol that it writes",
  multiplier: "the digit of the second number that this row multiplies by; ✱: none",
  multiplicand: "the digit of the first number that is multiplied here",
  product: "a digit of the row's product; ✱: a 0 that is not added, ✱✱: a 0 that is not written",
  carry: "the carry of the product, to the left",
  sum_carry: "the carry of the sum, to the left",
  addend: "the digit that is added further down",
  sum: "a digit of the sum so far; ✱: a sum of 0",
  row: "the kind of this row",
  number: "a digit of the numbers on top; ✱: to the left of their last digit",
  column_multiplier: "a digit of the second number that moves straight down",
  column_multiplicand: "a digit of the first number that moves straight down",
  diagonal: "a digit of the second number that moves down to the right",
  passing: "a digit of the first number that moves down to the left",
  arriving: "the digit of the second number that arrives here",
  comes: "whether a digit of the second number arrives here; 0: from above, 1: from the left",
  zero: "whether the first number is 0",
  adds: "whether there is a sum above",
  total: "whether this row is the total",
};

const VIEWS = {
  e: "upright", r90: "turned left", r180: "upside down", r270: "turned right", h: "mirrored",
  v: "mirrored, upside down", t: "mirrored, turned left", hvt: "mirrored, turned right",
};

const byId = (id) => document.getElementById(id);
const { models: abouts, views, symbols } = JSON.parse(byId("models").textContent);
const models = abouts.map((about) => modelOf({ ...about, symbols }));
let model = models[0]; // the chosen one
let works = []; // its solved canvas, and that of the model it is compared with
let order = []; // the cells to fill in, in the order of writing
let at = 0; // number of cells computed so far
let chosen = null; // the inspected cell, [row, column]; null: the last one computed
let differ = null; // the first cell in which the two models differ
let playing = false;
let healing = null; // after a disturbance: steps taken, the last one that changed a cell, most steps

function make(tag, content, kind = "") {
  const element = document.createElement(tag);
  element.append(...[content].flat());
  element.className = kind;
  return element;
}

const spoken = (name) => name.replaceAll("_", " ");
const percent = (p) => (p > 0.9999 ? "> 99.99 %" : `${(100 * p).toFixed(2)} %`);

function signOf(symbol) {
  const character = symbols[symbol];
  return { _: "", ".": "", "*": "×" }[character] ?? character;
}

function label({ about, counts }, name, value) {
  if (name === "symbol") return signOf(value) || "blank";
  if (name === "row") return ROWS[value];
  if (about.codes.includes(name)) return String(value);
  if (!name || counts.get(name) === 2) return value ? "yes" : "no";
  if (value === 0) return "–";
  return value > about.base ? "✱".repeat(value - about.base) : (value - 1).toString(16).toUpperCase();
}

function message(of, name, value) {
  const element = make("span", [`${spoken(name)} `, make("b", label(of, name, value))], "message");
  element.title = MEANINGS[name] ?? "";
  return element;
}

function begin(finished) {
  byId("wrong").textContent = "";
  const beside = models[byId("beside").value];
  const view = views.find(([name]) => name === byId("view").value)[1];
  try {
    const numbers = readProblem(model.about, byId("text").value);
    works = [model, ...(beside ? [beside] : [])].map((one) => workOut(one, numbers, view));
    for (const work of works) Object.assign(work, { numbers, right: rightAnswer(model.about, numbers) });
    history.replaceState(null, "", `#${numbers.join(model.about.sign === "+" ? "+" : "x")}`);
  } catch (error) {
    byId("wrong").textContent = error.message;
    return;
  }
  drawTables();
  recover();
  at = finished ? order.length : 0;
  play(!finished);
  show();
}

function drawTables() {
  const { cells } = works[0];
  order = [];
  for (const [row, all] of cells.entries()) {
    for (let column = all.length - 1; column >= 0; column--) {
      if (!all[column].given) order.push([row, column]);
    }
  }
  const turns = new Map(order.map(([row, column], turn) => [`${row},${column}`, turn + 1]));
  for (const work of works) {
    const rows = work.cells.map((all) => make("tr", all.map(() => make("td", ""))));
    work.table = rows.map((row) => [...row.cells]);
    for (const [row, all] of work.cells.entries()) {
      for (const [column, cell] of all.entries()) {
        const shown = work.table[row][column];
        cell.turn = turns.get(`${row},${column}`) ?? 0;
        shown.onmouseenter = () => choose(row, column);
        shown.onclick = shown.onfocus = () => {
          if (!healing) play(false);
          choose(row, column);
        };
      }
    }
    const canvas = make("table", rows, "canvas");
    canvas.setAttribute("role", "grid");
    canvas.setAttribute("aria-label", "The canvas; arrow keys move from cell to cell, a digit overwrites the cell");
    canvas.style.setProperty("--columns", cells[0].length);
    canvas.onmouseleave = () => choose();
    canvas.onkeydown = (event) => step(event, work);
    work.scroll = make("div", canvas, "scroll");
    work.said = make("p", "", "said");
    work.said.setAttribute("aria-live", "polite");
  }
  const heading = ({ model: { about } }) => (works.length > 1 ? [make("h2", about.name)] : []);
  byId("works").replaceChildren(...works.flatMap((work) => [...heading(work), work.scroll, work.said]));
  byId("at").max = order.length;
  differ = works.length > 1 ? order.find((place) => !agree(...works, place)) : null;
}

// Return true if two models have the same symbol and the same common signals in a cell.
function agree(one, other, [row, column]) {
  const [a, b] = [one, other].map(({ cells }) => cells[row][column]);
  const codes = [...one.model.about.codes, ...other.model.about.codes];
  const names = Object.keys(a.signals).filter((name) => name in b.signals && !codes.includes(name));
  return a.symbol === b.symbol && names.every((name) => a.signals[name] === b.signals[name]);
}

function choose(...place) {
  chosen = place.length ? place : null;
  show();
}

// The cells of a canvas now: solved, or on their way back there.
const now = ({ cells, disturbed }) => disturbed ?? cells;

function show() {
  const finished = at === order.length && !healing;
  const [row, column] = chosen || (finished && works[0].answer[0]) || order[Math.max(at - 1, 0)];
  for (const work of works) {
    const { cells, table, answer, scroll } = work;
    for (const [i, shown] of table.entries()) {
      for (const [j, cell] of now(work)[i].entries()) {
        const solved = cells[i][j];
        const hidden = solved.turn > at;
        const text = hidden ? "" : signOf(cell.symbol);
        const written = cell.least < UNSURE ? "filled unsure" : "filled";
        const wrong = cell.symbol !== solved.symbol;
        const right = cell.given ? text && "given" : written;
        const state = wrong ? "hurt" : alike(cell, solved) ? right : "astray";
        shown[j].ariaInvalid = wrong ? "true" : null;
        if (shown[j].textContent !== text) shown[j].textContent = text;
        shown[j].className = hidden ? "mask" : state;
        shown[j].tabIndex = -1;
      }
    }
    if (finished) for (const [i, j] of answer) table[i][j].classList.add("answer");
    if (differ && !healing && cells[differ[0]][differ[1]].turn <= at) {
      table[differ[0]][differ[1]].classList.add("differs");
    }
    const here = table[row][column];
    here.classList.add("chosen");
    here.tabIndex = 0;
    if (playing) scroll.scrollLeft = here.offsetLeft - scroll.clientWidth / 2;
    for (const { name, step } of model.about.directions) {
      if (step) table[row + step[0]]?.[column + step[1]]?.classList.add(name);
    }
  }
  byId("at").value = at;
  byId("count").textContent = `${at} of ${order.length} cells`;
  const panels = works.flatMap((work) => aboutCell(work, row, column));
  byId("cell").replaceChildren(make("h2", placeOf(row, column)), ...panels);
  for (const work of works) showAnswer(work, finished);
  showDifference();
  showHealing();
}

function placeOf(row, column) {
  return `Row ${row + 1}, column ${works[0].cells[0].length - column} from the right`;
}

// Inputs, attention and decisions of a model's cell.
function aboutCell(work, row, column) {
  const { model: of } = work;
  const cells = now(work);
  const cell = cells[row][column];
  const done = work.cells[row][column].turn <= at;
  const given = `given, ${signOf(cell.symbol) || "blank"}`;
  const written = done ? `writes ${signOf(cell.symbol) || "nothing"}` : "is not computed yet";
  const sees = [make("tr", [make("th", "itself"), make("td", cell.given ? given : "to be filled in")])];
  for (const { name, step, signals } of of.about.directions.filter((direction) => direction.step)) {
    const from = cells[row + step[0]]?.[column + step[1]]?.signals;
    const said = from ? signals.map((signal) => message(of, signal, from[signal])) : "no cell is there";
    sees.push(make("tr", [make("th", `${ARROWS[name]} ${spoken(name)}`, name), make("td", said)]));
  }
  const title = works.length > 1 ? [make("h2", of.about.name)] : [];
  const parts = [...title, make("p", cell.given ? given : written, "state")];
  if (!cell.ops.length) {
    const passed = Object.keys(cell.signals).filter((name) => name);
    const all = passed.map((name) => message(of, name, cell.signals[name]));
    return [...parts, make("h3", "Disturbed. Until its next step it passes on"), make("p", all)];
  }
  parts.push(make("h3", "Its inputs"), make("table", sees));
  if (!done) return parts;
  const heading = make("tr", ["decision", "probability", "margin"].map((one) => make("th", one)));
  heading.title = "margin: difference between the highest logit and the next";
  const decided = cell.ops.map((op, number) => decisions(of, op, number)).reverse().flat();
  const sure = `Its confidence that all decisions are correct: ${percent(cell.sure)}.`;
  parts.push(make("h3", "Its decisions"));
  parts.push(make("table", [heading, ...decided], "decided"), make("p", sure));
  return parts;
}

// Inputs, decisions and attention of one op.
function decisions(of, { outputs, seen, looks }, number) {
  const { about } = of;
  const { inputs, of: signals } = about.ops[number];
  const rows = outputs.map(({ name, value, probability, margin }) => {
    const figures = [percent(probability), margin.toFixed(1)].map((text) => make("td", text));
    return make("tr", [make("td", message(of, name, value)), ...figures]);
  });
  const from = about.directions.flatMap(({ name }, direction) => signals[direction].map((signal, i) =>
    `${ARROWS[name]} ${spoken(signal) || "a cell"} ${label(of, signal, seen[direction]?.[i] ?? 0)}`));
  if (inputs?.includes("token")) from.unshift("its symbol");
  const shares = about.directions.map(({ name }, direction) => [name, looks.map((head) => head[direction])]);
  const bars = shares.filter(([, of]) => of.some((share) => share > 0))
    .map(([name, of]) => `${ARROWS[name]} ${of.map((share) => BARS[Math.round(7 * share)]).join("")}`)
    .map((text) => make("span", text, "bars"));
  const lines = inputs ? [`from ${from.join(", ")}`] : [];
  if (bars.length) lines.push([`attention of its ${looks.length} heads: `, ...bars]);
  const all = make("td", lines.map((line) => make("div", line)));
  all.colSpan = 3;
  return lines.length ? [...rows, make("tr", all, "from")] : rows;
}

function showAnswer({ model: { about }, numbers, value, right, said }, finished) {
  const inBase = (number) => number.toString(about.base).toUpperCase();
  const written = value !== null && about.base !== 10 ? `, written ${inBase(value)}` : "";
  const verdict = value === right ? "correct, by exact arithmetic" : `incorrect: it is ${right}`;
  const text = finished ? `${value ?? "no number"}${written} (${verdict})` : "…";
  said.textContent = `${numbers.join(about.sign === "+" ? " + " : " × ")} = ${text}`;
  said.classList.toggle("bad", finished && value !== right);
}

function showDifference() {
  const told = differ && works[0].cells[differ[0]][differ[1]].turn <= at;
  const done = works.length > 1 && at === order.length && !healing;
  const link = told && make("button", `first in ${placeOf(...differ).toLowerCase()}`);
  if (link) link.onclick = () => go(works[0].cells[differ[0]][differ[1]].turn);
  const both = done ? ["Both decide the same in every cell."] : [];
  byId("differ").replaceChildren(...(link ? ["The two differ, ", link] : both));
}

// Return the number of cells that differ from the solved ones.
function hurtCells() {
  return works.reduce((all, work) => {
    const solved = work.cells.flat();
    return all + now(work).flat().filter((cell, i) => !alike(cell, solved[i])).length;
  }, 0);
}

function showHealing() {
  const cells = (n) => `${n} ${n === 1 ? "cell" : "cells"}`;
  byId("back").ariaLabel = healing ? "Back to the solved canvas" : "One cell back";
  byId("on").ariaLabel = healing ? "One step of all cells on" : "One cell on";
  byId("hurt").textContent = healing
    ? `Step ${healing.steps} of at most ${healing.most}: ${cells(hurtCells())} not as solved` : "";
}

// Disturb the solved canvases, or those that are healing, and let them heal.
function disturb(change) {
  at = order.length;
  for (const work of works) work.disturbed = change(work.model, now(work));
  healing = { steps: 0, last: 0, most: Math.max(...works.map(({ canvas }) => longestChain(canvas))) };
  byId("healed").textContent = "";
  const place = chosen;
  play(true);
  chosen = place;
  due = -1; // so that the disturbance is seen
  show();
}

// A digit in a cell that is filled in; without one, another digit than there is.
function scribble([row, column], typed) {
  const { model: of, cells } = works[0];
  if (cells[row][column].given) return;
  const digits = [...DIGITS.slice(0, of.about.base)];
  const others = digits.filter((digit) => digit !== symbols[now(works[0])[row][column].symbol]);
  const digit = typed ?? others[Math.floor(Math.random() * others.length)];
  chosen = [row, column];
  disturb((one, before) => one.scribbled(before, [row, column], digit, Math.random));
}

// One step of all cells at once; at the end, how many changed anything.
function heal() {
  healing.steps++;
  for (const work of works) {
    const before = work.disturbed;
    work.disturbed = work.model.step(work.canvas, before);
    const same = work.disturbed.every((all, i) => all.every((cell, j) => alike(cell, before[i][j])));
    if (!same) healing.last = healing.steps;
  }
  if (healing.last < healing.steps || healing.steps === healing.most) {
    const { last, most } = healing;
    const healed = hurtCells() === 0 ? "Healed" : "Not healed: another canvas";
    const place = chosen;
    recover();
    play(false);
    chosen = place;
    byId("healed").textContent = `${healed} after ${last} ${last === 1 ? "step" : "steps"} of all cells; `
      + `at most ${most}, the longest chain of cells.`;
  }
  show();
}

// Back to the solved canvases.
function recover() {
  healing = null;
  byId("healed").textContent = "";
  for (const work of works) work.disturbed = null;
}

function play(on) {
  playing = on;
  chosen = null;
  byId("play").textContent = on ? "Pause" : "Play";
}

function go(number) {
  recover();
  play(false);
  at = Math.min(Math.max(number, 0), order.length);
  show();
}

let due = 0; // cells, and part of one
function tick() {
  if (!playing) due = 0;
  else due += 2 ** (byId("speed").value - (healing ? SLOWER : 0)) / FRAMES;
  if (due < 1) return;
  if (healing) {
    due = 0;
    heal();
    return;
  }
  at = Math.min(at + Math.floor(due), order.length);
  due %= 1;
  if (at === order.length) play(false);
  show();
}

// The arrow keys move from cell to cell; a digit overwrites the cell.
function step(event, { table }) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const [down, right] = steps[event.key] ?? [0, 0];
  const digit = event.key.length === 1 ? event.key.toUpperCase() : "";
  const { cellIndex, parentElement } = event.target;
  const typed = digit && DIGITS.slice(0, model.about.base).includes(digit);
  if (typed && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    scribble([parentElement.rowIndex, cellIndex], digit);
  }
  if (!down && !right) return;
  event.preventDefault();
  table[parentElement.rowIndex + down]?.[cellIndex + right]?.focus();
}

function fromAddress() {
  const problem = decodeURIComponent(location.hash.slice(1));
  if (problem) byId("text").value = problem;
  begin(Boolean(problem));
}

function choices(id, options) {
  byId(id).replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  byId(id).parentElement.hidden = options.length < 2;
}

// Describe the chosen model, and list the models that it can be compared with.
function introduce() {
  const { about } = model;
  const inputs = Number(about.proof?.op_inputs).toLocaleString("en");
  const { layout, base, sign } = about;
  const alike = [...models.keys()].filter((i) => models[i] !== model
    && models[i].about.layout === layout && models[i].about.base === base);
  choices("beside", [["", "no other"], ...alike.map((i) => [i, models[i].about.name])]);
  byId("text").value = byId("text").value.replaceAll(/\s*[x*×+]\s*/gi, sign === "+" ? " + " : " × ");
  byId("about").textContent = [
    `${about.parameters.toLocaleString("en")} parameters, trained on numbers of ${about.trained}.`,
    "A cell reads only its own symbol and the decisions of its neighbours.",
    about.proof?.verdict === "proved"
      ? `It is correct on all ${inputs} possible inputs of a cell, so it is correct at every length.`
      : "It is not proved: its answers may be incorrect.",
    base === 10 ? "" : `It calculates in base ${base}; type numbers as usual, in base 10.`,
    "It computes here, in your browser; point at a cell to inspect it.",
  ].join(" ");
}

byId("problem").onsubmit = (event) => event.preventDefault() || begin(false);
byId("back").onclick = () => go(healing ? at : at - 1);
byId("on").onclick = () => {
  if (!healing) return go(at + 1);
  playing = false;
  byId("play").textContent = "Play";
  return heal();
};
byId("shake").onclick = () => disturb((one, before) => one.shaken(before, Math.random));
byId("scribble").onclick = () => {
  const free = chosen && !works[0].cells[chosen[0]][chosen[1]].given;
  scribble(free ? chosen : order[Math.floor(Math.random() * order.length)]);
};
byId("at").oninput = (event) => go(Number(event.target.value));
byId("play").onclick = () => {
  if (at === order.length && !healing) {
    recover();
    at = 0;
  }
  play(!playing);
  show();
};
byId("model").onchange = () => {
  model = models[byId("model").value];
  introduce();
  begin(false);
};
byId("beside").onchange = byId("view").onchange = () => begin(false);

choices("model", abouts.map(({ name }, i) => [i, name]));
choices("view", views.map(([name]) => [name, VIEWS[name]]));
introduce();
onhashchange = fromAddress;
fromAddress();
setInterval(tick, 1000 / FRAMES);
