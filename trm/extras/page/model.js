// The network of trm/cells/model.py and the canvases that it fills in, in double precision: more
// exact than the float32 for which it is proved; and that of trm/cells/integer.py, whose integers
// are exact in it. Independent of the browser; tests run it in Node. It shares no code with them on
// purpose: it is a second opinion on the network and on the loop over cells.
"use strict";

// Rows `first` to `last` of a matrix, as wide as the vector is long, times that vector.
function times(matrix, vector, first, last) {
  const size = vector.length;
  const product = new Float64Array(last - first);
  for (let row = first; row < last; row++) {
    let total = 0;
    for (let i = 0; i < size; i++) total += matrix[row * size + i] * vector[i];
    product[row - first] = total;
  }
  return product;
}

function sum(...vectors) {
  return Float64Array.from(vectors[0], (_, i) => vectors.reduce((all, one) => all + one[i], 0));
}

function norm(vector) {
  const squares = vector.reduce((all, one) => all + one * one, 0);
  return vector.map((one) => one / Math.sqrt(squares / vector.length + 1e-5));
}

function softmax(scores) {
  const highest = Math.max(...scores);
  const powers = Array.from(scores, (score) => Math.exp(score - highest));
  const total = powers.reduce((all, one) => all + one, 0);
  return powers.map((power) => power / total);
}

const DIGITS = "0123456789ABCDEF";
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

class CellModel {
  constructor(about) {
    this.about = about;
    this.weights = new Map();
    for (const [name, base64] of about.weights) {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      const numbers = about.integers ? Int32Array : Float32Array;
      this.weights.set(name, new numbers(bytes.buffer));
    }
    this.counts = new Map(about.outputs); // classes of each, the symbol's first
    this.first = new Map(); // where they begin among the logits
    let next = 0;
    for (const [name, count] of [...about.outputs, ["", 2]]) {
      this.first.set(name, next);
      next += count;
    }
    this.known = new Map(); // cached decisions
    this.mostKnown = 2 ** 15; // some 120 MB; a shaken canvas of 40 x 40 digits has more of them
    this.looks = []; // latest attention of each head of the last layer: shares of the neighbours
  }

  // All cells of a canvas in the order of writing: rows downwards, each from the right to the left.
  work(canvas) {
    const cells = canvas.tokens.map(() => []);
    for (const [row, symbols] of canvas.tokens.entries()) {
      for (let column = symbols.length - 1; column >= 0; column--) {
        cells[row][column] = this.place(canvas, cells, row, column);
      }
    }
    return cells;
  }

  // The cells after one step of all at once, each from the signals that its neighbours had before.
  step(canvas, before) {
    return canvas.tokens.map((symbols, row) =>
      symbols.map((_, column) => this.place(canvas, before, row, column)));
  }

  // The cell in a place, from the signals of its neighbours.
  place({ tokens, asked }, cells, row, column) {
    const around = this.about.directions.map(({ step }) =>
      step && cells[row + step[0]]?.[column + step[1]]?.signals);
    const before = cells[row][column];
    if (before?.around && around.every((one, i) => one === before.around[i])) return before;
    const cell = this.cell(tokens[row][column], around);
    const given = !asked[row][column];
    return { ...cell, given, around, symbol: given ? tokens[row][column] : cell.symbol };
  }

  // A cell as a hand left it: another symbol, and other signals, until its next step.
  disturbed({ given, symbol }, signals, other) {
    return { given, symbol: given ? symbol : other, signals: { ...signals, "": 1 }, ops: [], sure: 0, least: 1 };
  }

  // Random signals of a cell; `random` draws from 0 to 1.
  signals(random) {
    const classes = [...this.counts].filter(([name]) => name !== "symbol");
    return Object.fromEntries(classes.map(([name, count]) => [name, Math.floor(random() * count)]));
  }

  // Random signals in all cells, and random digits where a cell writes.
  shaken(cells, random) {
    return cells.map((all) => all.map((cell) => {
      const digit = DIGITS[Math.floor(random() * this.about.base)];
      return this.disturbed(cell, this.signals(random), this.about.symbols.indexOf(digit));
    }));
  }

  // The cells with a digit in one place. The signals that pass on a digit written in that row pass on
  // this one; if no signal does, all are random.
  scribbled(cells, [row, column], digit, random) {
    const value = ({ symbol }) => DIGITS.indexOf(this.about.symbols[symbol]);
    const written = cells[row].filter((cell) => !cell.given && value(cell) >= 0);
    const names = [...this.counts.keys()].filter((name) => !this.about.codes.includes(name)
      && written.length && written.every((cell) => cell.signals[name] === 1 + value(cell)));
    const cell = cells[row][column];
    const passed = Object.fromEntries(names.map((name) => [name, 1 + DIGITS.indexOf(digit)]));
    const signals = names.length ? { ...cell.signals, ...passed } : this.signals(random);
    const hurt = this.disturbed(cell, signals, this.about.symbols.indexOf(digit));
    return cells.map((all, i) => all.map((one, j) => (i === row && j === column ? hurt : one)));
  }

  // Decisions of a cell: its symbol and signals, the inputs and outputs of each op, its confidence,
  // and the least probability. `around` contains the signals of each neighbour that exists.
  cell(token, around) {
    const cell = { symbol: token, signals: { "": 1 }, ops: [], sure: 1, least: 1 };
    for (const [number, op] of this.about.ops.entries()) {
      const seen = this.about.directions.map(({ step }, direction) => {
        const from = step ? around[direction] : cell.signals;
        return op.inputs || from ? op.of[direction].map((name) => from?.[name] ?? 0) : null;
      });
      const shown = !op.inputs || op.inputs.includes("token") ? token : null;
      const key = JSON.stringify([number, shown, seen]);
      const decided = this.known.get(key) ?? this.decide(number, shown, seen);
      if (this.known.size >= this.mostKnown) this.known.clear();
      this.known.set(key, decided);
      for (const { name, value, probability } of decided.outputs) {
        cell.least = Math.min(cell.least, probability);
        if (name === "symbol") cell.symbol = value;
        else cell.signals[name] = value;
      }
      cell.ops.push({ ...decided, seen });
      cell.sure *= decided.sure;
    }
    return cell;
  }

  // Outputs of one op, with their probabilities, and the margins of their logits over the next.
  decide(number, token, seen) {
    const state = this.think(number, token, seen);
    const outputs = this.about.ops[number].outputs.map((name) => {
      const first = this.first.get(name);
      const last = first + this.counts.get(name);
      const logits = this.logits(state, first, last);
      const value = logits.indexOf(Math.max(...logits));
      const next = Math.max(...logits.filter((_, i) => i !== value));
      return { name, value, probability: softmax(logits)[value], margin: logits[value] - next };
    });
    return { outputs, sure: sigmoid(this.halting(state)), looks: this.looks };
  }

  // Logits of some of the classes.
  logits(state, first, last) {
    const bias = this.weights.get("lm_head.bias").slice(first, last);
    return sum(times(this.weights.get("lm_head.weight"), state, first, last), bias);
  }

  // The halt logit.
  halting(state) {
    const [halt] = times(this.weights.get("halt_head.weight"), state, 0, 1);
    return halt + this.weights.get("halt_head.bias")[0];
  }

  // The state z_H of an op at the end of all cycles.
  think(number, token, seen) {
    const { hidden_size: size, num_layers, H_cycles, L_cycles } = this.about.config;
    const op = this.about.ops[number];
    const most = Math.max(1, ...this.about.directions.map((direction) => direction.signals.length));
    const messages = seen.map((values, direction) => {
      if (!values || (op.inputs && !values.length)) return null; // it reads nothing there
      const parts = values.map((value, i) => {
        const row = this.first.get(op.of[direction][i]) - this.counts.get("symbol") + value;
        return this.embedded("embed_messages", row, size / most);
      });
      return this.message(sum(new Float64Array(size), ...parts));
    });
    const attended = Array.from({ length: num_layers }, (_, layer) => (this.about.config.num_heads
      ? messages.map((one) => one && this.keysValues(one, layer))
      : sum(new Float64Array(size), ...messages.filter((one) => one))));
    let input = new Float64Array(size);
    if (token !== null) input = sum(input, this.embedded("embed_tokens", token, size));
    if (op.inputs) input = sum(input, this.embedded("embed_ops", number, size));
    let [answer, reasoning] = [this.weights.get("H_init"), this.weights.get("L_init")];
    for (let H = 0; H < H_cycles; H++) {
      for (let L = 0; L < L_cycles; L++) {
        reasoning = this.network(sum(reasoning, answer, input), attended);
      }
      answer = this.network(sum(answer, reasoning), attended);
    }
    return answer;
  }

  // A row of embeddings.
  embedded(name, row, factor) {
    const size = this.about.config.hidden_size;
    return this.weights.get(`${name}.weight`).slice(row * size, (row + 1) * size)
      .map((one) => one * Math.sqrt(factor));
  }

  // A message, from the sum of the embeddings of its signals.
  message(total) {
    return total;
  }

  // Keys, then values of a message.
  keysValues(message, layer) {
    const size = message.length;
    return times(this.weights.get(`layers.${layer}.mixing.qkv.weight`), message, size, 3 * size);
  }

  // All layers, once. `attended`: of each layer keys and values, or the sum of all messages.
  network(state, attended) {
    const size = state.length;
    for (const [layer, keysValues] of attended.entries()) {
      const matrix = (name) => this.weights.get(`layers.${layer}.${name}.weight`);
      let mixed = keysValues; // without heads, the sum of all messages
      if (this.about.config.num_heads) {
        mixed = this.attend(times(matrix("mixing.qkv"), state, 0, size), keysValues);
        mixed = times(matrix("mixing.out"), mixed, 0, size);
      }
      state = norm(sum(state, mixed));
      const inside = matrix("mlp.down").length / size;
      const both = times(matrix("mlp.gate_up"), state, 0, 2 * inside);
      const gated = both.slice(0, inside).map((x, i) => x * sigmoid(x) * both[inside + i]);
      state = norm(sum(state, times(matrix("mlp.down"), gated, 0, size)));
    }
    return state;
  }

  // Attention over the existing neighbours; without neighbours, zeros.
  attend(query, keysValues) {
    const all = query.length;
    const size = all / this.about.config.num_heads;
    const biases = this.weights.get("position.direction");
    const mixed = new Float64Array(all);
    const present = [...keysValues.keys()].filter((direction) => keysValues[direction]);
    this.looks = [];
    for (let first = 0; present.length && first < all; first += size) {
      const scores = present.map((direction) => {
        let score = 0;
        for (let i = first; i < first + size; i++) score += query[i] * keysValues[direction][i];
        const bias = biases[(first / size) * keysValues.length + direction];
        return score / Math.sqrt(size) + bias * Math.sqrt(all);
      });
      const shares = softmax(scores);
      this.looks.push(keysValues.map((_, direction) => shares[present.indexOf(direction)] ?? 0));
      for (const [at, weight] of shares.entries()) {
        const values = keysValues[present[at]];
        for (let i = first; i < first + size; i++) mixed[i] += weight * values[all + i];
      }
    }
    return mixed;
  }
}

const small = (vector) => vector.map((x) => Math.min(127, Math.max(-127, x)));
const bounded = (vector) => vector.map((x) => Math.min(2 ** 20, Math.max(-(2 ** 20), x)));
const divided = (x, y) => Math.floor((2 * x + y) / (2 * y)); // halves are rounded up
const halfPowers = Array.from({ length: 256 }, (_, i) => Math.round(2 ** (15 - i / 256)));

// The integer root of a BigInt.
function root(square) {
  let found = 1n;
  while (found * found <= square) found *= 2n;
  while (found * found > square) found = (found + square / found) / 2n;
  return found;
}

// RMS norm of integers with ten bits after the binary point.
function normed(vector) {
  const states = bounded(vector);
  const size = BigInt(states.length);
  const squares = states.reduce((all, x) => all + BigInt(x * x), 10n * size);
  const [length, unit] = [root(squares << 8n), root(size << 28n)].map(Number);
  return states.map((x) => divided(x * unit, length));
}

// A model in integers. All of them are far below 2^53, so double precision is exact.
class IntegerCellModel extends CellModel {
  // An integer times the fraction of a row.
  scaled(x, name, row = 0) {
    const shift = this.weights.get(`${name}.shift`)[row];
    const product = x * this.weights.get(`${name}.multiplier`)[row];
    return Math.floor((product + 2 ** (shift - 1)) / 2 ** shift);
  }

  // Inputs of a matrix, of 8 bits, from states.
  input(states, name) {
    return small(bounded(states).map((x) => this.scaled(x, name)));
  }

  // Rows of a matrix times a vector.
  rows(name, vector, first = 0, last = this.weights.get(`${name}.fraction.shift`).length) {
    const sums = times(this.weights.get(`${name}.weight`), vector, first, last);
    return sums.map((x, i) => this.scaled(x, `${name}.fraction`, first + i));
  }

  embedded(name, row) {
    const size = this.about.config.hidden_size;
    const integers = this.weights.get(`${name}.weight`).slice(row * size, (row + 1) * size);
    return integers.map((x) => this.scaled(x, `${name}.fraction`, row));
  }

  message(total) {
    return this.input(total, "to_message");
  }

  keysValues(message, layer) {
    return small(this.rows(`layers.${layer}.key_value`, message));
  }

  logits(state, first, last) {
    const bias = this.weights.get("head_bias").slice(first, last);
    const logits = sum(this.rows("head", this.input(state, "to_head"), first, last), bias);
    return logits.map((x) => x / 1024);
  }

  halting(state) {
    const last = this.weights.get("head_bias").length;
    return this.logits(state, last - 1, last)[0];
  }

  network(start, attended) {
    let state = start;
    for (const [layer, keysValues] of attended.entries()) {
      const name = `layers.${layer}`;
      const query = small(this.rows(`${name}.query`, this.input(state, `${name}.to_query`)));
      const mixed = this.attend(query, keysValues, name);
      state = normed(sum(bounded(state), this.rows(`${name}.out`, mixed)));
      const both = small(this.rows(`${name}.gate_up`, this.input(state, `${name}.to_mlp`)));
      const inside = both.length / 2;
      const silu = this.weights.get(`${name}.silu`);
      const gated = both.slice(0, inside).map((x, i) => silu[x + 127] * both[inside + i]);
      const hidden = small(gated.map((x) => this.scaled(x, `${name}.to_hidden`)));
      state = normed(sum(state, this.rows(`${name}.down`, hidden)));
    }
    return state;
  }

  attend(query, keysValues, name) {
    const all = query.length;
    const size = all / this.about.config.num_heads;
    const biases = this.weights.get(`${name}.direction`);
    const mixed = new Float64Array(all);
    const present = [...keysValues.keys()].filter((direction) => keysValues[direction]);
    this.looks = [];
    for (let first = 0; present.length && first < all; first += size) {
      const scores = present.map((direction) => {
        let score = biases[(first / size) * keysValues.length + direction];
        for (let i = first; i < first + size; i++) score += query[i] * keysValues[direction][i];
        return score;
      });
      const highest = Math.max(...scores);
      const weights = scores.map((score) => {
        const below = this.scaled(Math.min(highest - score, 2 ** 20), `${name}.octaves`);
        return Math.floor(halfPowers[below % 256] / 2 ** Math.min(31, Math.floor(below / 256)));
      });
      const total = weights.reduce((sums, one) => sums + one, 0);
      const shares = keysValues.map((_, direction) => weights[present.indexOf(direction)] / total);
      this.looks.push(shares.map((share) => share || 0));
      for (let i = first; i < first + size; i++) {
        const values = present.map((direction, at) => weights[at] * keysValues[direction][all + i]);
        mixed[i] = divided(values.reduce((sums, one) => sums + one, 0), total);
      }
    }
    return mixed;
  }
}

// The model of an entry of the page's data.
function modelOf(about) {
  return about.integers ? new IntegerCellModel(about) : new CellModel(about);
}

const MOST = 30; // numbers of a sum
// By the sign on a canvas: signs that are typed, a problem, what to write, how it is written, the
// operation, the most digits of a number, and a sentence for numbers of which there is no problem.
const OPERATIONS = {
  "+": {
    signs: /\+/, example: "87 + 604 + 9", wanted: "two numbers or more with +", longest: 60,
    write: (numbers) => numbers.join(" + "), work: (numbers) => numbers.reduce((one, next) => one + next),
  },
  "-": {
    signs: /[-−]/, example: "604 - 87", wanted: "two numbers with -", longest: 60,
    write: (numbers) => numbers.join(" - "), work: ([one, next]) => one - next,
    refuse: ([one, next]) => (one < next ? "Write the larger number first" : ""),
  },
  "*": {
    signs: /[x*×]/i, example: "2539 x 839", wanted: "two numbers with x", longest: 60,
    write: (numbers) => numbers.join(" × "), work: ([one, next]) => one * next,
  },
  "/": {
    signs: /[/÷]/, example: "839 / 25", wanted: "two numbers with /", longest: 6,
    write: (numbers) => numbers.join(" / "), work: ([one, next]) => one / next,
    refuse: ([, divisor]) => (divisor ? "" : "Divide by a number from 1 up"),
  },
  "%": {
    signs: /[x*×%]/i, example: "25 x 839 % 101", wanted: "three numbers with x and %", longest: 12,
    write: ([a, b, p]) => `${a} × ${b} % ${p}`, work: ([a, b, p]) => a * b % p,
    refuse: ([a, , p]) => (p < 2n || a >= p ? "Let the third number be at least 2, and above the first" : ""),
  },
};

// Read the numbers of a typed problem, as BigInts; throw an Error with a sentence if it is wrong.
function readProblem({ sign, operands: [fewest, most] }, text) {
  const { signs, example, wanted, longest, refuse } = OPERATIONS[sign];
  const parts = text.replaceAll(/[\s,_']/g, "").split(signs);
  if (!parts.every((part) => /^[0-9]*$/.test(part))) {
    throw new Error(`Use only digits, like ${example}.`);
  }
  if (parts.length < fewest || parts.includes("")) {
    throw new Error(`Write ${wanted} between them, like ${example}.`);
  }
  if (parts.length > Math.min(most, MOST)) {
    throw new Error(`${parts.length} numbers are too many here: give at most ${Math.min(most, MOST)}.`);
  }
  for (const { length } of parts.map((part) => part.replace(/^0+(?=.)/, ""))) {
    if (length > longest) {
      throw new Error(`A number of ${length} digits is too long here: give at most ${longest}.`);
    }
  }
  const numbers = parts.map(BigInt);
  const why = refuse?.(numbers);
  if (why) throw new Error(`${why}, like ${example}.`);
  return numbers;
}

function rightAnswer({ sign }, numbers) {
  return OPERATIONS[sign].work(numbers);
}

// Height and width of a problem's canvas, the number of rows that are given, and texts in them, each
// with its row and the column of its end, counted from the right. By layout; others are `inColumns`.
const PLANS = {
  lattice({ sign, heights }, [a, b]) {
    const beside = [sign, ...[...b].reverse()].map((digit, row) => [digit, row, 0]);
    const height = heights[0] + (b.length - 1) * (heights[1] - heights[0]);
    return { height, width: a.length + 3, given: 1, texts: [[a, 0, 2], ...beside] };
  },
  // a, with zeros if b is longer; then b, one column further left; as many rows as all trials take.
  restoring({ sign, base }, [a, b]) {
    const width = Math.max(a.length, b.length);
    let trials = 0;
    for (let shift = 0; shift <= Math.max(a.length - b.length, 0); shift++) trials += 1 + width - shift;
    const texts = [[a.padStart(width, "0"), 0, 0], [sign + b, 1, 1 + width - b.length]];
    return { height: 3 + (base - 1) * trials, width: width + 2, given: 2, texts };
  },
  // The highest digits of a number below p, and of p, as far left as the longer of b and p.
  waves({ sign }, [a, b, p]) {
    const width = Math.max(b.length, p.length);
    const shift = width - p.length;
    const texts = [[a, 0, shift], [b, 1, 0], [sign + p, 2, shift]];
    return { height: 5 * width + 2, width: width + 1, given: 3, texts };
  },
};

function inColumns({ sign, base, heights, operands: [fewest] }, digits) {
  const [adds, b] = [sign === "+", digits.at(-1)];
  const more = adds ? digits.length - fewest : b.length - 1;
  const longest = adds
    ? Math.max(...digits.map((each) => each.length)) + (digits.length - 1).toString(base).length
    : digits[0].length + (sign === "*" ? b.length : 0);
  const texts = [...digits.slice(0, -1), `${sign}_${b}`].map((text, row) => [text, row, 0]);
  const height = heights[0] + more * (heights[1] - heights[0]);
  return { height, width: Math.max(longest, b.length + 2), given: digits.length, texts };
}

// A problem as canvas/multiplication.py and others draw it, with a blank column on the left: ids of
// symbols, and the cells to fill in.
function drawPage(about, numbers) {
  const digits = numbers.map((number) => number.toString(about.base).toUpperCase());
  const { height, width, given, texts } = (PLANS[about.layout] ?? inColumns)(about, digits);
  const page = Array.from({ length: height }, (_, row) =>
    new Array(1 + width).fill(row < given ? "_" : "."));
  for (const [text, row, end] of texts) page[row].splice(1 + width - end - text.length, text.length, ...text);
  return {
    tokens: page.map((row) => row.map((character) => about.symbols.indexOf(character))),
    asked: page.map((row) => row.map((character) => character === ".")),
  };
}

// Rows of anything in a view of augment/symmetry.py.
function turned(rows, [transpose, flipRows, flipColumns]) {
  const all = transpose
    ? rows[0].map((_, column) => rows.map((row) => row[column]))
    : rows.map((row) => [...row]);
  if (flipColumns) for (const row of all) row.reverse();
  return flipRows ? all.reverse() : all;
}

// Solve a problem's canvas in a view: return its cells, and those of the answer.
function workOut(model, numbers, view) {
  const { tokens, asked } = drawPage(model.about, numbers);
  const canvas = { tokens: turned(tokens, view), asked: turned(asked, view) };
  const cells = model.work(canvas);
  const upright = tokens.map((row) => [...row]);
  const where = tokens.map(() => []);
  const places = turned(tokens.map((row, i) => row.map((_, j) => [i, j])), view);
  for (const [row, all] of places.entries()) {
    for (const [column, [i, j]] of all.entries()) {
      upright[i][j] = cells[row][column].symbol;
      where[i][j] = [row, column];
    }
  }
  const answer = answerCells(model.about, upright).map(([i, j]) => where[i][j]);
  const text = answer.map(([row, column]) => model.about.symbols[cells[row][column].symbol]).join("");
  return { model, canvas, cells, answer, value: valueOf(text, model.about.base) };
}

// Return true if two cells have the same symbol and pass on the same signals.
function alike(one, other) {
  const names = Object.keys(other.signals);
  return one.symbol === other.symbol && names.every((name) => one.signals[name] === other.signals[name]);
}

// Cells in the longest chain in which each reads the one before it: the most steps to a fixed point.
function longestChain({ tokens }) {
  const [rows, columns] = [tokens.length, tokens[0].length];
  return (columns > 1 ? 2 : 1) * (rows - 1) + columns;
}

// Read a number from digits of a base; null: they are no number.
function valueOf(text, base) {
  const digits = [...text].map((digit) => DIGITS.slice(0, base).indexOf(digit));
  if (!digits.length || digits.includes(-1)) return null;
  return digits.reduce((value, digit) => value * BigInt(base) + BigInt(digit), 0n);
}

// The cells of the answer on a canvas of ids, the highest digit first; without blanks before it. In
// products modulo p it ends where p does.
function answerCells({ symbols, layout }, page) {
  const last = page.length - 1;
  const end = page[0].length - (layout === "lattice" ? 3 : 1);
  const places = Array.from({ length: end + 1 }, (_, column) => [last, column]);
  if (layout === "lattice") for (let row = last - 1; row > 0; row--) places.push([row, end]);
  const written = ([row, column]) => symbols[page[row][column]] !== "_";
  const first = places.findIndex(written);
  if (first < 0) return [];
  return places.slice(first, layout === "waves" ? places.findLastIndex(written) + 1 : undefined);
}

if (typeof module !== "undefined") {
  module.exports = { alike, longestChain, modelOf, readProblem, rightAnswer, workOut };
}
