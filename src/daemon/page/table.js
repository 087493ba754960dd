/** The table of targets: only what is in sight is in the page, whatever their number. */

import { button, byId, element } from '../../lib/page/dom.js';
import { makeRow } from './rows.js';
import { COLUMNS } from './targets.js';
import { offsetOf, piecesOf } from './window.js';

/** @import { Row } from './rows.js' */
/** @import { ColumnName, Order, Target } from './targets.js' */
/** @import { TableForm } from './window.js' */

/** Rows beyond either edge, so that a person who goes on by keyboard or by wheel finds them there. */
const OVERSCAN = 8;
/** Until the first row was measured. */
const FIRST_ROW_PX = 40;
/** Until what is open was measured. */
const FIRST_OPEN_PX = 260;

/** The table, with the rows that are in sight. */
export class TargetTable {
  #scroller = byId('targets-scroller');
  #table = byId('targets-table');
  #head = byId('targets-head');
  #body = byId('targets-body');
  /** @type {readonly Target[]} */
  #targets = [];
  /** The name of each target, told apart where two have the same. @type {string[]} */
  #keys = [];
  /** @type {Map<string, Row>} */
  #rows = new Map();
  /** @type {Map<string, number>} */
  #openPx = new Map();
  /** @type {Set<string>} */
  #open = new Set();
  #rowPx = FIRST_ROW_PX;
  #made = 0;
  /** @type {string | null} */
  #focused = null;
  #isDrawAsked = false;
  #options;

  /** @param {{ nowMs: () => number, onSort: (column: ColumnName) => void, announce: (text: string) => void }} options */
  constructor(options) {
    this.#options = options;
    this.#head.append(
      element('tr', { 'aria-rowindex': '1' }, ...COLUMNS.map((column) => this.#headCell(column))),
    );
    this.#scroller.addEventListener('scroll', () => this.#drawSoon(), { passive: true });
    this.#body.addEventListener('keydown', (event) => this.#onKey(event));
    this.#body.addEventListener('focusin', (event) => {
      this.#focused = this.#nameOf(event.target);
    });
    this.#body.addEventListener('focusout', (event) => {
      this.#focused = this.#nameOf(event.relatedTarget);
    });
    new ResizeObserver(() => this.#drawSoon()).observe(this.#scroller);
  }

  /**
   * Shows targets in the order in which they are given.
   * @param {readonly Target[]} targets
   * @param {Order} order how they are sorted, for the headings
   */
  show(targets, order) {
    this.#targets = targets;
    this.#keys = uniqueNames(targets);
    this.#table.setAttribute('aria-rowcount', String(targets.length + 1));
    for (const cell of this.#head.querySelectorAll('th')) {
      const isSorted = cell.dataset['column'] === order.column;
      if (isSorted) cell.setAttribute('aria-sort', order.isDescending ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    }
    this.#draw();
  }

  /** Goes back to the first row. */
  toTop() {
    this.#scroller.scrollTop = 0;
  }

  /** @param {typeof COLUMNS[number]} column @returns {HTMLElement} */
  #headCell({ name, title }) {
    const sort = button({ class: 'sort' }, () => this.#options.onSort(name), title);
    return element('th', { scope: 'col', class: `column-${name}`, 'data-column': name }, sort);
  }

  #drawSoon() {
    if (this.#isDrawAsked) return;
    this.#isDrawAsked = true;
    requestAnimationFrame(() => {
      this.#isDrawAsked = false;
      this.#draw();
    });
  }

  #draw() {
    this.#drawOnce();
    // What was never drawn before has been measured now, and may leave room for more rows, or less.
    if (this.#measure()) this.#drawOnce();
  }

  #drawOnce() {
    const form = this.#form();
    const fromPx = this.#scroller.scrollTop;
    const toPx = fromPx + this.#scroller.clientHeight;
    const focused = this.#focused;
    const pinned = focused === null ? -1 : this.#keys.indexOf(focused);
    const sight = { fromPx, toPx, overscan: OVERSCAN, pinned: pinned < 0 ? null : pinned };
    /** @type {Map<string, Row>} */
    const kept = new Map();
    const nodes = piecesOf(form, sight).flatMap((piece) =>
      piece.kind === 'gap' ? [gap(piece.heightPx)] : this.#nodesOf(piece.index, kept),
    );
    this.#rows = kept;
    this.#replace(nodes);
  }

  /** @returns {TableForm} */
  #form() {
    /** @type {Map<number, number>} */
    const openPx = new Map();
    if (this.#open.size > 0) {
      this.#keys.forEach((key, index) => {
        if (this.#open.has(key)) openPx.set(index, this.#openPx.get(key) ?? FIRST_OPEN_PX);
      });
    }
    return { count: this.#targets.length, rowPx: this.#rowPx, openPx };
  }

  /** @param {number} index @param {Map<string, Row>} kept @returns {HTMLElement[]} */
  #nodesOf(index, kept) {
    const target = this.#targets[index];
    const name = this.#keys[index];
    if (target === undefined || name === undefined) return [];
    const { announce } = this.#options;
    const row =
      this.#rows.get(name) ??
      makeRow(name, this.#nextId(), { announce, onToggle: (each) => this.#toggle(each) });
    kept.set(name, row);
    row.row.dataset['name'] = name;
    row.detail.dataset['name'] = name;
    const isOpen = this.#open.has(name);
    row.update(target, { index, isOpen, nowMs: this.#options.nowMs() });
    return isOpen ? [row.row, row.detail] : [row.row];
  }

  /** @returns {string} */
  #nextId() {
    this.#made += 1;
    return `detail-${this.#made}`;
  }

  /** Puts the nodes into the body without touching those that are in place, so that focus and selection stay. @param {readonly HTMLElement[]} nodes */
  #replace(nodes) {
    const before = document.activeElement;
    const wanted = new Set(nodes);
    const gone = Array.from(this.#body.children).filter(
      (node) => !(node instanceof HTMLElement) || !wanted.has(node),
    );
    for (const node of gone) node.remove();
    let cursor = this.#body.firstElementChild;
    for (const node of nodes) {
      if (node === cursor) cursor = cursor.nextElementSibling;
      else this.#body.insertBefore(node, cursor);
    }
    if (!(before instanceof HTMLElement) || before === document.activeElement) return;
    const next = this.#body.contains(before) ? before : this.#scroller;
    next.focus({ preventScroll: true });
  }

  /** @returns {boolean} whether anything has another height than was thought */
  #measure() {
    let isOther = false;
    const [first] = this.#rows.values();
    const rowPx = first?.row.getBoundingClientRect().height ?? 0;
    if (rowPx > 0 && Math.abs(rowPx - this.#rowPx) > 0.1) {
      this.#rowPx = rowPx;
      isOther = true;
    }
    for (const [name, { detail }] of this.#rows) {
      const heightPx = detail.isConnected ? detail.getBoundingClientRect().height : 0;
      if (heightPx === 0 || Math.abs(heightPx - (this.#openPx.get(name) ?? 0)) <= 0.5) continue;
      this.#openPx.set(name, heightPx);
      isOther = true;
    }
    return isOther;
  }

  /** @param {string} name */
  #toggle(name) {
    if (!this.#open.delete(name)) this.#open.add(name);
    this.#draw();
  }

  /** @param {EventTarget | null} node @returns {string | null} */
  #nameOf(node) {
    if (!(node instanceof Element) || !this.#body.contains(node)) return null;
    const row = node.closest('tr');
    return row?.dataset['name'] ?? null;
  }

  /** Arrows go from row to row, Home and End to the ends. @param {KeyboardEvent} event */
  #onKey(event) {
    const { target, key } = event;
    if (!(target instanceof HTMLElement) || !target.classList.contains('row-toggle')) return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const index = this.#focused === null ? -1 : this.#keys.indexOf(this.#focused);
    const last = this.#targets.length - 1;
    /** @type {Readonly<Record<string, number>>} */
    const goals = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: last };
    const goal = goals[key];
    if (goal === undefined || index < 0) return;
    event.preventDefault();
    this.#focusRow(Math.min(last, Math.max(0, goal)));
  }

  /** @param {number} index */
  #focusRow(index) {
    const form = this.#form();
    const top = offsetOf(form, index);
    const headPx = this.#head.getBoundingClientRect().height;
    const roomPx = this.#scroller.clientHeight - headPx - this.#rowPx;
    const { scrollTop } = this.#scroller;
    if (top < scrollTop) this.#scroller.scrollTop = top;
    else if (top > scrollTop + roomPx) this.#scroller.scrollTop = top - roomPx;
    // The row that has the focus stays until the other one has it.
    this.#draw();
    const toggle = this.#rows.get(this.#keys[index] ?? '')?.row.querySelector('button');
    toggle?.focus({ preventScroll: true });
  }
}

/** @param {readonly Target[]} targets @returns {string[]} */
function uniqueNames(targets) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  return targets.map(({ target }) => {
    const count = counts.get(target) ?? 0;
    counts.set(target, count + 1);
    return count === 0 ? target : `${target}\n${count}`;
  });
}

/** @param {number} heightPx @returns {HTMLElement} */
function gap(heightPx) {
  const cell = element('td', { colspan: COLUMNS.length });
  cell.style.height = `${heightPx}px`;
  return element('tr', { class: 'gap', 'aria-hidden': 'true' }, cell);
}
