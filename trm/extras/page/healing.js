// Healing: wrong digits and random signals, from which all cells at once find back to the solution.
"use strict";

const SLOWER = 2; // a step of all cells takes 2 ** SLOWER times as long as a cell

let healing = null; // after a disturbance: steps taken, the last one that changed a cell, most steps

// The cells of a canvas now: solved, or on their way back there.
const now = ({ cells, disturbed }) => disturbed ?? cells;

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
  at = total;
  for (const work of works) work.disturbed = change(work);
  healing = { steps: 0, last: 0, most: Math.max(...works.map(({ canvas }) => longestChain(canvas))) };
  byId("healed").textContent = "";
  const places = [chosen, kept];
  play(!still.matches);
  [chosen, kept] = places;
  due = -1; // so that the disturbance is seen
  show();
  announce(byId("hurt").textContent);
}

// A digit in a cell that is filled in; without one, another digit than there is.
function scribble(work, [row, column], typed) {
  const { model: of, cells } = work;
  if (cells[row][column].given) return;
  const digits = [...DIGITS.slice(0, of.about.base)];
  const others = digits.filter((digit) => digit !== symbols[now(work)[row][column].symbol]);
  const digit = typed || others[Math.floor(Math.random() * others.length)];
  chosen = kept = { work, place: [row, column] };
  disturb((one) => (shared || one === work
    ? one.model.scribbled(now(one), [row, column], digit, Math.random) : now(one)));
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
    const places = [chosen, kept];
    recover();
    play(false);
    [chosen, kept] = places;
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
