// A visitor of the web page, without a browser: `node browse.js page.html` runs the page's scripts on
// elements that only store what is written to them. It uses every control, and prints JSON: the
// texts of some elements after each action. An error in a script ends it with that error.
"use strict";

const { readFileSync } = require("node:fs");
const { runInThisContext } = require("node:vm");

class Element {
  constructor(tag = "") {
    Object.assign(this, { tag, children: [], className: "", value: "", scrollLeft: 0, clientWidth: 100 });
    this.style = { setProperty() {} };
    this.classList = {
      add: (name) => { this.className += ` ${name}`; },
      toggle: (name, on) => { if (on) this.className += ` ${name}`; },
    };
  }

  get parentElement() { return this.parent ??= new Element(); }

  get cells() { return this.children; } // of a row

  get textContent() {
    return this.children.map((one) => (one instanceof Element ? one.textContent : String(one))).join("");
  }

  set textContent(text) { this.children = [text]; }

  append(...children) {
    this.children.push(...children);
    for (const child of children) if (child instanceof Element) child.parent = this;
  }

  replaceChildren(...children) {
    this.children = [];
    this.append(...children);
    if (this.tag === "select") this.value = children[0]?.value ?? "";
  }

  setAttribute() {}

  focus() { this.focused = true; this.onfocus?.(); }
}

const html = readFileSync(process.argv[2], "utf8");
const byName = new Map();
for (const [, tag, name, rest] of html.matchAll(/<(\w+) id="(\w+)"([^>]*)>/g)) {
  byName.set(name, Object.assign(new Element(tag), { value: /value="([^"]*)"/.exec(rest)?.[1] ?? "" }));
}
const data = /<script type="application\/json" id="models">(.*)<\/script>/.exec(html)[1];
byName.set("models", Object.assign(new Element(), { textContent: data }));
byName.get("longest").value = 2;
byName.get("number").value = 2;

const timers = [];
Object.assign(globalThis, {
  document: {
    createElement: (tag) => new Element(tag),
    getElementById(name) {
      if (!byName.has(name)) throw new Error(`page.html has no element ${name}`);
      return byName.get(name);
    },
  },
  history: { replaceState: (state, title, address) => { location.hash = address; } },
  onhashchange: null,
  location: { hash: "#123x456" },
  matchMedia: () => ({ matches: false }),
  Option: class extends Element {
    constructor(text, value) {
      super("option");
      Object.assign(this, { textContent: text, value });
    }
  },
  setInterval: (action) => timers.push(action),
});
const scripts = [...html.matchAll(/<script>\n([^]*?)<\/script>/g)].map(([, script]) => script);
for (const script of scripts) runInThisContext(script);

// Names that the scripts declare are seen by a further script alone.
const run = (script) => runInThisContext(script);
const texts = (...names) => Object.fromEntries(names.map((name) => [name, byName.get(name).textContent]));
const event = (more) => ({ preventDefault() {}, ...more });

// Count the texts that are announced to screen readers.
const announced = [];
const status = byName.get("status");
Object.defineProperty(status, "textContent", {
  get() { return this.children.join(""); },
  set(text) { announced.push(text); this.children = [text]; },
});

async function visit() {
  const found = { solved: texts("about", "works", "cell", "count", "glossary", "status") };
  byName.get("play").onclick();
  announced.length = 0;
  for (let i = 0; i < 2000 && run("playing"); i++) timers[0]();
  found.announced = [...announced];
  byName.get("back").onclick();
  found.walked = texts("status");
  byName.get("on").onclick();
  byName.get("at").oninput({ target: { value: 3 } });
  found.third = texts("cell", "count");
  byName.get("play").onclick();
  byName.get("speed").value = 10;
  for (let i = 0; i < 9; i++) timers[0]();
  found.played = texts("count", "play");
  const tick = () => timers[0]();
  byName.get("speed").value = 4;
  byName.get("shake").onclick();
  tick();
  found.shaken = texts("hurt", "healed", "works", "cell", "play");
  byName.get("on").onclick(); // one step, and a pause
  found.stepped = texts("hurt", "play");
  byName.get("play").onclick();
  for (let i = 0; i < 200; i++) tick();
  found.healed = texts("hurt", "healed", "works", "play");
  const typed = (key, row, column, more = {}) => run("press")(event({
    key, ...more, target: run("works[0]").table[row][column],
  }), run("works[0]"));
  typed("9", 1, 5, { ctrlKey: true });
  typed("Shift", 1, 5);
  typed("a", 1, 5);
  typed("9", 0, 5); // a given cell
  found.untouched = texts("hurt", "healed");
  typed("9", 1, 5);
  found.typed = texts("hurt", "cell", "works");
  found.invalid = run("works[0].table.flat().filter((one) => one.ariaInvalid).length");
  for (let i = 0; i < 200; i++) tick();
  found.mended = texts("hurt", "healed", "works");
  run("works[0].table[2][2].onclick()");
  run("works[0].scroll.children[0].onmouseleave()"); // the pointer goes to the button
  byName.get("digit").value = "9";
  byName.get("scribble").onclick();
  found.scribbled = texts("hurt", "cell", "status");
  found.named = byName.get("on").ariaLabel;
  byName.get("back").onclick(); // ends the healing
  found.left = texts("hurt", "healed", "count");
  byName.get("on").onclick();
  byName.get("speed").value = 10;
  const cell = run("works[0].table[1][2]");
  for (const action of ["onclick", "onmouseenter", "onmouseover", "onfocus"]) cell[action]?.(event({ target: cell }));
  found.chosen = texts("cell");
  const focused = (key) => {
    run("press")(event({ key, target: run("works[0].table[1][2]") }), run("works[0]"));
    const all = run("works[0]").table.map((row) => row.map((one) => one.focused));
    for (const row of run("works[0]").table) for (const one of row) one.focused = false;
    return all.flatMap((row, i) => row.flatMap((one, j) => (one ? [[i, j]] : [])));
  };
  found.moved = ["ArrowLeft", "ArrowUp", "Home", "End", "Escape"].map(focused);
  byName.get("text").value = "12y3";
  byName.get("problem").onsubmit(event());
  found.refused = texts("wrong");
  byName.get("text").value = "12x34";
  byName.get("view").value = "r90";
  byName.get("view").onchange();
  byName.get("view").value = "e";
  byName.get("beside").value = 1;
  run("begin(true)");
  found.beside = texts("works", "differ");
  byName.get("shake").onclick();
  for (let i = 0; i < 200; i++) tick();
  found.both = texts("works", "healed");
  found.layouts = [byName.get("model").value, run("shared")];
  byName.get("differ").children.find((one) => one instanceof Element)?.onclick();
  location.hash = "#a=12&b=34&model=people&beside=lattice&view=r90";
  run("fromAddress()");
  found.address = [location.hash, run("model.about.name"), run("works[1].model.about.name"), run("shared")];
  byName.get("view").value = "e";
  byName.get("view").onchange();
  run("go(99)");
  found.people = texts("works", "differ", "cell", "status");
  run("works[1].table[1][2].onclick()");
  byName.get("scribble").onclick();
  found.apart = texts("hurt", "cell");
  for (const address of ["#a=12&b=34&model=nobody", "#a=1&b=2&view=up", "#%", "#a=1", "#b=2&b=3"]) {
    location.hash = address;
    run("fromAddress()");
    (found.refusals ??= []).push(byName.get("wrong").textContent);
  }
  byName.get("model").value = 2;
  byName.get("model").onchange();
  run("go(99)");
  found.other = texts("works", "about");
  location.hash = "#a=87&b=604&b=9&model=column-seed0";
  run("fromAddress()");
  found.sums = [location.hash, byName.get("text").value];
  const choose = (index) => {
    byName.get("model").value = index;
    byName.get("model").onchange();
    return byName.get("text").value;
  };
  location.hash = "#a=604&b=87&model=differences";
  run("fromAddress()");
  found.differences = [location.hash, byName.get("text").value, texts("wrong").wrong, choose(0)];
  byName.get("text").value = "87x604";
  found.differences.push(choose(4), choose(0)); // 87 - 604 is no problem
  byName.get("text").value = "87y604";
  found.differences.push(choose(4));
  byName.get("text").value = "1x2";
  choose(0);
  await byName.get("start").onclick();
  const [cell11] = byName.get("grid").children[1].children.slice(1);
  cell11.onfocus();
  cell11.onkeydown(event({ key: "ArrowRight" }));
  found.measured = texts("grid", "legend", "interval", "status");
  process.stdout.write(JSON.stringify(found));
}

visit();
