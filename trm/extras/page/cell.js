// The inspected cell: its inputs, attention and decisions, in words; and what its signals mean.
"use strict";

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
// Signals that mean something else in some layouts.
const MEANINGS_IN = {
  difference: {
    minuend: "a digit of the first number", subtrahend: "a digit of the second number",
    borrow: "what the next digit on the left lends",
  },
  restoring: {
    mode: "what this row does, from the column where it begins",
    borrow: "what the next digit on the left lends",
    seen: "whether a digit of the divisor is on the right",
    remainder: "a digit of the remainder so far",
    difference: "a digit of the trial, until it is known whether the trial is kept",
    divisor: "a digit of the divisor, which moves right",
    mark: "the column of the divisor's lowest digit, and what follows there",
    quotient: "a digit of the quotient: the number of trials that were kept",
    settle: "whether the trial is kept; moves right, a column a row",
  },
  waves: {
    line: "which of the numbers on top is next", digit: "a digit of S, the remainder so far",
    sum: "the same with the carry", carry: "what the next digit on the left gets",
    twos: "a digit of S, left of p's highest", fours: "a digit of S, two columns left of it",
    a: "a digit of the first number", b: "a digit of the second number that moves left",
    p: "a digit of the third number", phase: "what begins in this row, in the column of p's highest digit",
    wave: "what the column on the right does in the next row", points: "from the sign to that column",
    answer: "whether S is the answer, or p is added", borrow: "what is taken along, to the left",
  },
};
// Names of classes that are no digits.
const SIGNED = ["0", "1", "−1"];
const CLASSES_IN = {
  restoring: {
    mode: ["–", "subtracts", "quotient", "subtracts again"], mark: ["–", "here", "found", "again"],
    settle: ["–", "not kept", "kept"],
  },
  waves: {
    digit: SIGNED, sum: SIGNED, value: SIGNED, twos: SIGNED, fours: SIGNED, carry: SIGNED,
    twos_before: SIGNED, fours_before: SIGNED, b: ["–", "0", "1", "end", "done"],
    phase: ["–", "adds 0", "adds a", "takes p", "waits", "doubles", "ends"], answer: ["–", "S", "S + p"],
  },
};
const CODE = "a class that the model invented: it had no hints";
const MARGIN = "difference between the highest logit and the next";

const byId = (id) => document.getElementById(id);

function make(tag, content, kind = "") {
  const element = document.createElement(tag);
  element.append(...[content].flat());
  element.className = kind;
  return element;
}

const spoken = (name) => name.replaceAll("_", " ");
const percent = (p) => (p > 0.9999 ? "> 99.99 %" : `${(100 * p).toFixed(2)} %`);

function label({ about, counts }, name, value) {
  if (name === "symbol") return signOf(value) || "blank";
  if (name === "row") return ROWS[value];
  const classes = CLASSES_IN[about.layout]?.[name];
  if (classes) return classes[value];
  if (about.codes.includes(name)) return String(value);
  if (!name || counts.get(name) === 2) return value ? "yes" : "no";
  if (value === 0) return "–";
  if (about.layout === "waves" && counts.get(name) > about.base + 1) return String(value);
  return value > about.base ? "✱".repeat(value - about.base) : (value - 1).toString(16).toUpperCase();
}

const meaning = ({ about }, name) => (about.codes.includes(name) ? CODE
  : MEANINGS_IN[about.layout]?.[name] ?? MEANINGS[name] ?? "");

function message(of, name, value) {
  const element = make("span", [`${spoken(name)} `, make("b", label(of, name, value))], "message");
  element.title = meaning(of, name);
  return element;
}

// All signals of the shown models, explained; if two models mean different things, with their names.
function explain() {
  const names = new Set(works.flatMap(({ model: of }) => [...of.counts.keys()]));
  const lines = [...names].map((name) => {
    const having = works.map(({ model: of }) => of).filter(({ counts }) => counts.has(name));
    const texts = new Set(having.map((of) => meaning(of, name)));
    const each = having.map((of) => `${of.about.name}: ${meaning(of, name)}`);
    return [name, texts.size > 1 ? each.join(". ") : meaning(having[0], name)];
  });
  const parts = [...lines, ["margin", MARGIN]].map(([name, text]) =>
    [make("dt", spoken(name)), make("dd", text)]);
  byId("glossary").replaceChildren(...parts.flat());
}

function placeOf(work, [row, column]) {
  return `Row ${row + 1}, column ${work.cells[0].length - column} from the right`;
}

const wordOf = (symbol) => signOf(symbol) || "blank";

// A sentence about a cell: its place, and what it writes.
function sentenceOf(work, [row, column]) {
  const cell = now(work)[row][column];
  const written = signOf(cell.symbol) || "nothing";
  return `${placeOf(work, [row, column])}, ${cell.given ? `given, ${wordOf(cell.symbol)}` : `writes ${written}`}`;
}

function headed(kind, text, name = "") {
  const heading = make("th", text, name);
  heading.scope = kind;
  return heading;
}

// Inputs, attention and decisions of a model's cell; `level` of its headings.
function aboutCell(work, [row, column], level) {
  const { model: of } = work;
  const cells = now(work);
  const cell = cells[row][column];
  const done = work.cells[row][column].turn <= at;
  const given = `given, ${wordOf(cell.symbol)}`;
  const written = done ? `writes ${signOf(cell.symbol) || "nothing"}` : "is not computed yet";
  const sees = [make("tr", [headed("row", "itself"), make("td", cell.given ? given : "to be filled in")])];
  for (const { name, step, signals } of of.about.directions.filter((direction) => direction.step)) {
    const from = cells[row + step[0]]?.[column + step[1]]?.signals;
    const said = from ? signals.map((signal) => message(of, signal, from[signal])) : "no cell is there";
    sees.push(make("tr", [headed("row", `${ARROWS[name]} ${spoken(name)}`, name), make("td", said)]));
  }
  const parts = [make("p", cell.given ? given : written, "state")];
  const title = (text) => make(`h${level}`, text);
  if (!cell.ops.length) {
    const passed = Object.keys(cell.signals).filter((name) => name);
    const all = passed.map((name) => message(of, name, cell.signals[name]));
    return [...parts, title("Disturbed. Until its next step it passes on"), make("p", all)];
  }
  parts.push(title("Its inputs"), make("table", sees));
  if (!done) return parts;
  const heading = make("tr", ["decision", "probability", "margin"].map((one) => headed("col", one)));
  const decided = cell.ops.map((op, number) => decisions(of, op, number)).reverse().flat();
  const sure = `Its confidence that all decisions are correct: ${percent(cell.sure)}.`;
  parts.push(title("Its decisions"));
  parts.push(make("table", [heading, ...decided], "decided"), make("p", sure));
  return parts;
}

// Inputs, decisions and attention of one op.
function decisions(of, { outputs, seen, looks }, number) {
  const { about } = of;
  const { inputs, of: signals } = about.ops[number];
  const rows = outputs.map(({ name, value, probability, margin }) => {
    const figures = [percent(probability), margin.toFixed(1)].map((text) => make("td", text));
    return make("tr", [headed("row", message(of, name, value)), ...figures]);
  });
  const from = about.directions.flatMap(({ name }, direction) => signals[direction].map((signal, i) =>
    `${ARROWS[name]} ${spoken(signal) || "a cell"} ${label(of, signal, seen[direction]?.[i] ?? 0)}`));
  if (inputs?.includes("token")) from.unshift("its symbol");
  const shares = about.directions.map(({ name }, direction) => [name, looks.map((head) => head[direction])]);
  const bars = shares.filter(([, of]) => of.some((share) => share > 0)).map(([name, of]) => {
    const drawn = of.map((share) => BARS[Math.round(7 * share)]).join("");
    const element = make("span", `${ARROWS[name]} ${drawn}`, "bars");
    element.setAttribute("role", "img");
    const spokenShares = of.map((share) => Math.round(100 * share)).join(", ");
    element.setAttribute("aria-label", `${spoken(name)}: ${spokenShares} per cent`);
    return element;
  });
  const lines = inputs ? [`from ${from.join(", ")}`] : [];
  if (bars.length) lines.push([`attention of its ${looks.length} heads: `, ...bars]);
  const all = make("td", lines.map((line) => make("div", line)));
  all.colSpan = 3;
  return lines.length ? [...rows, make("tr", all, "from")] : rows;
}

// The panel about the inspected cells of all shown models.
function showCell() {
  const [first] = works;
  const panels = works.flatMap((work) => {
    const place = inspected(work);
    const name = shared ? work.model.about.name : `${work.model.about.name}: ${placeOf(work, place).toLowerCase()}`;
    const title = works.length > 1 ? [make("h3", name)] : [];
    return [...title, ...aboutCell(work, place, works.length > 1 ? 4 : 3)];
  });
  const heading = shared ? placeOf(first, inspected(first)) : "One cell of each";
  byId("cell").replaceChildren(make("h2", heading), ...panels);
}
