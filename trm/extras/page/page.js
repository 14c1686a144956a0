// User interface: the problem, canvases that fill up, and the address that shows them again.
"use strict";

const FRAMES = 25; // a second, while it plays
const UNSURE = 0.9; // a cell with a decision less probable than this is marked
const STEPS = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  Home: [0, -Infinity], End: [0, Infinity],
};
const VIEWS = {
  e: "upright", r90: "turned left", r180: "upside down", r270: "turned right", h: "mirrored",
  v: "mirrored, upside down", t: "mirrored, turned left", hvt: "mirrored, turned right",
};

const { models: abouts, views, symbols } = JSON.parse(byId("models").textContent);
const models = abouts.map((about) => modelOf({ ...about, symbols }));
const still = matchMedia("(prefers-reduced-motion: reduce)"); // then nothing plays unasked
let model = models[0]; // the chosen one
let works = []; // its solved canvas, and that of the model it is compared with
let shared = true; // whether both canvases have the same layout, so that cells correspond
let total = 0; // cells to fill in, on the canvas with most of them
let at = 0; // number of cells computed so far, on each canvas
let chosen = null; // the inspected cell, { work, place: [row, column] }; null: the last one computed
let kept = null; // the cell that was clicked or moved to, which stays when the pointer leaves
let differ = null; // the first cell in which the two models differ
let playing = false;

// Say a sentence to screen readers. Only this element is announced, and only when its text changes.
function announce(text) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

function signOf(symbol) {
  const character = symbols[symbol];
  return { _: "", ".": "", "*": "×" }[character] ?? character;
}

const written = ({ sign }, numbers) => OPERATIONS[sign].write(numbers);

// A problem for a model: the text, if it is one; else its numbers with the model's sign, or an example
// if they make no problem of it. A text that no model reads stays as it is typed.
function problemFor({ about }, text) {
  const reads = (one, problem) => {
    try {
      return Boolean(readProblem(one, problem));
    } catch {
      return false;
    }
  };
  if (reads(about, text) || !abouts.some((one) => reads(one, text))) return text;
  const other = written(about, text.match(/[0-9]+/g));
  return reads(about, other) ? other : OPERATIONS[about.sign].example;
}

// Solve the problem in the field; return the error if it is refused.
function begin(finished) {
  const other = models[byId("beside").value];
  const view = views.find(([name]) => name === byId("view").value)[1];
  byId("wrong").textContent = "";
  byId("text").ariaInvalid = null;
  try {
    const numbers = readProblem(model.about, byId("text").value);
    works = [model, ...(other ? [other] : [])].map((one) => workOut(one, numbers, view));
    for (const work of works) Object.assign(work, { numbers, right: rightAnswer(model.about, numbers) });
  } catch (error) {
    refuse(error);
    return error;
  }
  const address = addressOf(works[0].numbers);
  history.replaceState(null, "", address);
  byId("link").href = address;
  announce("");
  drawTables();
  recover();
  at = finished || still.matches ? total : 0;
  play(at === 0);
  show();
  return null;
}

function refuse(error) {
  byId("wrong").textContent = error.message;
  byId("text").ariaInvalid = "true";
}

// The cells to fill in, in the order of writing.
function orderOf({ cells }) {
  return cells.flatMap((all, row) => all.map((cell, column) => [cell, row, column]).reverse())
    .filter(([cell]) => !cell.given).map(([, row, column]) => [row, column]);
}

function drawTables() {
  const [one, other] = works.map(({ model: { about } }) => about);
  shared = !other || (one.layout === other.layout && one.base === other.base);
  for (const work of works) {
    work.order = orderOf(work);
    for (const [turn, [row, column]] of work.order.entries()) work.cells[row][column].turn = turn + 1;
    drawTable(work);
  }
  total = Math.max(...works.map(({ order }) => order.length));
  byId("at").max = total;
  const both = ({ model: { about }, element }) =>
    make("div", [make("h2", about.name), make("p", about.results, "results"), ...element]);
  const most = Math.max(...works.map(({ cells }) => cells[0].length));
  byId("works").style.setProperty("--columns", most); // side by side where both fit
  byId("works").replaceChildren(...(other ? works.map(both) : works[0].element));
  differ = other && shared ? works[0].order.find((place) => !agree(...works, place)) : null;
  explain();
}

function drawTable(work) {
  const rows = work.cells.map((all) => make("tr", all.map(() => make("td", ""))));
  work.table = rows.map((row) => [...row.cells]);
  for (const [row, all] of work.cells.entries()) {
    for (const [column, cell] of all.entries()) {
      const shown = work.table[row][column];
      cell.turn ??= 0;
      shown.onmouseenter = () => choose({ work, place: [row, column] });
      shown.onclick = shown.onfocus = () => {
        if (!healing) play(false);
        choose(kept = { work, place: [row, column] });
      };
    }
  }
  const canvas = make("table", rows, "canvas");
  canvas.setAttribute("role", "grid");
  canvas.setAttribute("aria-label", works.length > 1 ? `Canvas of ${work.model.about.name}` : "Canvas");
  canvas.setAttribute("aria-describedby", "hint");
  canvas.style.setProperty("--columns", work.cells[0].length);
  canvas.onmouseleave = () => choose(kept);
  canvas.onkeydown = (event) => press(event, work);
  work.scroll = make("div", canvas, "scroll");
  work.said = make("p", "", "said");
  work.element = [work.scroll, work.said];
}

// Return true if two models have the same symbol and the same common signals in a cell.
function agree(one, other, [row, column]) {
  const [a, b] = [one, other].map(({ cells }) => cells[row][column]);
  const codes = [...one.model.about.codes, ...other.model.about.codes];
  const names = Object.keys(a.signals).filter((name) => name in b.signals && !codes.includes(name));
  return a.symbol === b.symbol && names.every((name) => a.signals[name] === b.signals[name]);
}

function choose(cell) {
  chosen = cell;
  show();
}

// The place of the inspected cell of a canvas.
function inspected(work) {
  if (chosen && (shared || chosen.work === work)) return chosen.place;
  const { order, answer } = work;
  return (at >= order.length && !healing && answer[0]) || order[Math.max(Math.min(at, order.length) - 1, 0)];
}

function show() {
  const finished = at === total && !healing;
  for (const work of works) showCanvas(work, finished);
  const count = `${at} of ${total} cells`;
  byId("at").value = at;
  byId("at").ariaValueText = count;
  byId("count").textContent = count;
  showCell();
  for (const work of works) showAnswer(work, finished);
  showDifference(finished);
  showHealing();
  const said = works.map((work) => [works.length > 1 ? `${work.model.about.name}:` : "", work.said.textContent]);
  const all = [byId("healed").textContent, ...said.flat(), byId("differ").textContent];
  if (finished) announce(all.filter(Boolean).join(" "));
}

function showCanvas(work, finished) {
  const { cells, table, answer, scroll, model: of } = work;
  for (const [i, shown] of table.entries()) {
    for (const [j, cell] of now(work)[i].entries()) {
      const solved = cells[i][j];
      const hidden = solved.turn > at;
      const text = hidden ? "" : signOf(cell.symbol);
      const filled = cell.least < UNSURE ? "filled unsure" : "filled";
      const wrong = cell.symbol !== solved.symbol;
      const right = cell.given ? text && "given" : filled;
      const state = wrong ? "hurt" : alike(cell, solved) ? right : "astray";
      const called = hidden ? "not computed yet" : `${text || "blank"}${cell.given ? ", given" : ""}`;
      shown[j].ariaInvalid = wrong ? "true" : null;
      if (shown[j].ariaLabel !== called) shown[j].ariaLabel = called;
      if (shown[j].textContent !== text) shown[j].textContent = text;
      shown[j].className = hidden ? "mask" : state;
      shown[j].tabIndex = -1;
    }
  }
  if (finished) for (const [i, j] of answer) table[i][j].classList.add("answer");
  if (differ && !healing && cells[differ[0]][differ[1]].turn <= at) {
    table[differ[0]][differ[1]].classList.add("differs");
  }
  const [row, column] = inspected(work);
  const here = table[row][column];
  here.classList.add("chosen");
  here.tabIndex = 0;
  if (playing) scroll.scrollLeft = here.offsetLeft - scroll.clientWidth / 2;
  for (const { name, step } of of.about.directions) {
    if (step) table[row + step[0]]?.[column + step[1]]?.classList.add(name);
  }
}

function showAnswer({ model: { about }, numbers, value, right, said }, finished) {
  const inBase = (number) => number.toString(about.base).toUpperCase();
  const base = value !== null && about.base !== 10 ? `, written ${inBase(value)}` : "";
  const verdict = value === right ? "correct, by exact arithmetic" : `incorrect: it is ${right}`;
  const text = finished ? `${value ?? "no number"}${base} (${verdict})` : "…";
  said.textContent = `${written(about, numbers)} = ${text}`;
  said.classList.toggle("bad", finished && value !== right);
}

function showDifference(finished) {
  const element = byId("differ");
  const [one, other] = works;
  const reached = differ && one.cells[differ[0]][differ[1]].turn <= at;
  const place = reached && placeOf(one, differ).toLowerCase();
  const answers = other && one.value === other.value ? "Both have the same answer." : "Their answers differ.";
  const both = shared ? "Both decide the same in every cell." : answers;
  const text = reached ? `The two differ, first in ${place}` : other && finished ? both : "";
  if (element.textContent === text) return; // a button that has the focus stays
  element.replaceChildren(text);
  element.className = reached ? "bad" : "";
  if (!reached) return;
  const link = make("button", `first in ${place}`);
  link.onclick = () => go(one.cells[differ[0]][differ[1]].turn);
  element.replaceChildren("The two differ, ", link);
}

function play(on) {
  playing = on;
  chosen = kept = null;
  byId("play").textContent = on ? "Pause" : "Play";
}

function go(number) {
  recover();
  play(false);
  at = Math.min(Math.max(number, 0), total);
  show();
}

// One cell on or back, and a sentence about it.
function walk(by) {
  go(at + by);
  const here = works.filter(({ order }) => at && at <= order.length && at < total);
  const said = here.map((work) => sentenceOf(work, work.order[at - 1]));
  if (said.length) announce((shared ? said.slice(0, 1) : said).join("; "));
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
  at = Math.min(at + Math.floor(due), total);
  due %= 1;
  if (at === total) play(false);
  show();
}

// The cell that a key leads to, from a cell in rows of cells.
function neighbour(key, cell, rows) {
  const steps = STEPS[key];
  if (!steps) return null;
  const row = rows.findIndex((all) => all.includes(cell));
  const column = rows[row].indexOf(cell) + steps[1];
  return rows[row + steps[0]]?.[Math.min(Math.max(column, 0), rows[row].length - 1)] ?? cell;
}

// Arrow keys, Home and End move from cell to cell; a digit overwrites the cell; Escape leaves it.
function press(event, work) {
  const { key, target } = event;
  const digit = key.length === 1 ? key.toUpperCase() : "";
  const typed = digit && DIGITS.slice(0, work.model.about.base).includes(digit);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typed) {
    const row = work.table.findIndex((all) => all.includes(target));
    event.preventDefault();
    scribble(work, [row, work.table[row].indexOf(target)], digit);
  }
  if (key === "Escape") choose(kept = null);
  const next = neighbour(key, target, work.table);
  if (!next) return;
  event.preventDefault();
  next.focus();
}

// The address of what is shown: #a=2539&b=839, with the models and the view if there are several.
function addressOf(numbers) {
  const [, other] = works;
  const parts = new URLSearchParams(numbers.map((number, i) => [i ? "b" : "a", number]));
  if (models.length > 1) parts.set("model", model.about.name);
  if (other) parts.set("beside", other.model.about.name);
  if (byId("view").value !== "e") parts.set("view", byId("view").value);
  return `#${parts}`;
}

// The index of a name from the address among the names that there are.
function find(kind, name, names) {
  const index = names.indexOf(name);
  if (index < 0) throw new Error(`The address names the ${kind} ${name}, which this page lacks: it has ${names.join(", ")}.`);
  return index;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // no address of this page
  }
}

// Show what the address says: #a=2539&b=839&model=…&beside=…&view=…, or #2539x839.
function fromAddress() {
  const before = byId("text").value;
  const text = location.hash.slice(1);
  const parts = new URLSearchParams(text.includes("=") ? text : "");
  const [name, besideName, view] = ["model", "beside", "view"].map((one) => parts.get(one));
  const names = abouts.map((about) => about.name);
  let failed = null;
  try {
    if (name !== null) model = models[find("model", name, names)];
    introduce();
    byId("model").value = models.indexOf(model);
    const numbers = [...parts.getAll("a"), ...parts.getAll("b")];
    const problem = text.includes("=") ? written(model.about, numbers) : decoded(text);
    if (problem) byId("text").value = problem;
    const others = comparable();
    byId("beside").value = besideName === null ? "" : others[find("model", besideName, others.map((i) => names[i]))];
    byId("view").value = views[find("view", view ?? "e", views.map(([one]) => one))][0];
  } catch (error) {
    failed = error;
  }
  failed = begin(Boolean(text)) ?? failed;
  if (!works.length) { // there is something to see in any case
    byId("text").value = before;
    begin(true);
  }
  if (failed) refuse(failed);
}

function choices(id, options) {
  byId(id).replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  byId(id).parentElement.hidden = options.length < 2;
}

// Models that the chosen one can be compared with: those of the same task.
const comparable = () => [...models.keys()].filter((i) =>
  models[i] !== model && models[i].about.sign === model.about.sign);

// Describe the chosen model, and list the models that it can be compared with.
function introduce() {
  const { about } = model;
  const inputs = Number(about.proof?.op_inputs).toLocaleString("en");
  const { layout, base } = about;
  const before = Number(byId("beside").value || -1);
  const described = (other) => [other.name, other.layout !== layout && spoken(other.layout),
    other.base !== base && `base ${other.base}`].filter(Boolean).join(", ");
  choices("beside", [["", "no other"], ...comparable().map((i) => [i, described(abouts[i])])]);
  if (comparable().includes(before)) byId("beside").value = before;
  choices("digit", [["", "any wrong one"], ...[...DIGITS.slice(0, base)].map((digit) => [digit, digit])]);
  byId("text").value = problemFor(model, byId("text").value);
  byId("about").textContent = [
    `${about.parameters.toLocaleString("en")} parameters, trained on numbers of ${about.trained}.`,
    "A cell reads only its own symbol and the decisions of its neighbours.",
    about.proof?.verdict === "proved"
      ? `It is correct on all ${inputs} possible inputs of a cell, so it is correct at every length.`
      : "It is not proved: its answers may be incorrect.",
    base === 10 ? "" : `It calculates in base ${base}; type numbers as usual, in base 10.`,
    "It computes here, in your browser.",
  ].join(" ");
}

byId("problem").onsubmit = (event) => event.preventDefault() || begin(false);
byId("back").onclick = () => (healing ? go(at) : walk(-1));
byId("on").onclick = () => {
  if (!healing) return walk(1);
  playing = false;
  byId("play").textContent = "Play";
  heal();
  return announce(byId("hurt").textContent || byId("status").textContent);
};
byId("shake").onclick = () => disturb((work) => work.model.shaken(now(work), Math.random));
byId("scribble").onclick = () => {
  const work = kept?.work ?? works[0];
  const [row, column] = kept?.place ?? [];
  const free = kept && !work.cells[row][column].given;
  const place = free ? kept.place : work.order[Math.floor(Math.random() * work.order.length)];
  scribble(work, place, byId("digit").value);
};
byId("at").oninput = (event) => go(Number(event.target.value));
byId("play").onclick = () => {
  if (at === total && !healing) {
    recover();
    at = 0;
    announce("");
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
onhashchange = fromAddress;
fromAddress();
setInterval(tick, 1000 / FRAMES);
