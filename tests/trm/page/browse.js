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
  history: { replaceState() {} },
  onhashchange: null,
  location: { hash: "#123x456" },
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

async function visit() {
  const found = { solved: texts("about", "works", "cell", "count") };
  for (const name of ["back", "on"]) byName.get(name).onclick();
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
  const typed = (key, row, column, more = {}) => run("step")(event({
    key, ...more, target: { cellIndex: column, parentElement: { rowIndex: row } },
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
  run("choose(2, 2)");
  byName.get("scribble").onclick();
  found.scribbled = texts("hurt", "cell");
  found.named = byName.get("on").ariaLabel;
  byName.get("back").onclick(); // ends the healing
  found.left = texts("hurt", "healed", "count");
  byName.get("on").onclick();
  byName.get("speed").value = 10;
  const cell = run("works[0].table[1][2]");
  for (const action of ["onclick", "onmouseenter", "onmouseover", "onfocus"]) cell[action]?.(event({ target: cell }));
  found.chosen = texts("cell");
  run('step({ key: "ArrowLeft", preventDefault() {}, '
    + "target: { cellIndex: 2, parentElement: { rowIndex: 1 } } }, works[0])");
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
  byName.get("differ").children.find((one) => one instanceof Element)?.onclick();
  byName.get("model").value = 2;
  byName.get("model").onchange();
  run("go(99)");
  found.other = texts("works", "about");
  byName.get("model").value = 0;
  byName.get("model").onchange();
  await byName.get("start").onclick();
  found.measured = texts("grid", "legend");
  process.stdout.write(JSON.stringify(found));
}

visit();
