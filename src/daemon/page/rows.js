/** The rows of the table of targets: made once, and kept while they are in sight, with focus and selection. */

import { button, element, setText } from '../../lib/page/dom.js';
import { printable, sizeText } from '../../lib/page/text.js';
import { detailsOf } from './details.js';
import { refill } from './refill.js';
import { tick, timeNode } from './times.js';
import { numberText } from './format.js';
import { badge } from './signs.js';
import { COLUMNS, STATES, troubleOf } from './targets.js';

/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Target } from './targets.js' */

/**
 * The row of a target, and what is open below it.
 * @typedef {object} Row
 * @property {HTMLTableRowElement} row
 * @property {HTMLTableRowElement} detail
 * @property {(target: Target, facts: { index: number, isOpen: boolean, nowMs: number }) => void} update
 */

/**
 * The cells of a row, by the name of their column. The first column, `target`, is the heading of the row.
 * @type {Readonly<Record<Exclude<typeof COLUMNS[number]['name'], 'target'>, (target: Target) => Child[]>>}
 */
const CELLS = {
  state: ({ state }) => [badge(STATES[state].tone, state)],
  verified: ({ verifiedAtMs }) => [timeNode(verifiedAtMs)],
  changed: ({ changedAtMs }) => [timeNode(changedAtMs)],
  compared: ({ checkedAtMs }) => [timeNode(checkedAtMs)],
  files: ({ files }) => [numberText(files)],
  size: ({ sizeBytes }) => [sizeText(sizeBytes)],
};

/**
 * A row for a target.
 * @param {string} target its name
 * @param {string} id for what is open below it
 * @param {{ onToggle: (name: string) => void, announce: (text: string) => void }} options
 * @returns {Row}
 */
export function makeRow(target, id, { onToggle, announce }) {
  const folder = element('bdi', { class: 'folder' });
  const repository = element('bdi', { class: 'repository' });
  const name = element('span', { class: 'name' }, folder, repository);
  const branch = element('bdi', { class: 'branch' });
  const chevron = element('span', { class: 'chevron', 'aria-hidden': 'true' });
  const trouble = element('bdi', { class: 'row-trouble' });
  const toggle = button({ class: 'row-toggle' }, () => onToggle(target), chevron, name, branch, trouble);
  const heading = element('th', { scope: 'row', class: 'column-target' }, toggle);
  const cells = COLUMNS.slice(1).map((column) => ({
    column,
    cell: element('td', { class: `column-${column.name}` }),
  }));
  const row = element('tr', { class: 'target' }, heading, ...cells.map(({ cell }) => cell));
  const holder = element('td', { colspan: COLUMNS.length });
  const detail = element('tr', { class: 'detail', id }, holder);
  return {
    row,
    detail,
    update(target, { index, isOpen, nowMs }) {
      // The heading row is the first.
      row.setAttribute('aria-rowindex', String(index + 2));
      toggle.setAttribute('aria-expanded', String(isOpen));
      if (isOpen) toggle.setAttribute('aria-controls', id);
      else toggle.removeAttribute('aria-controls');
      const nameStart = target.repository.lastIndexOf('/', target.repository.length - 2) + 1;
      setText(folder, target.repository.slice(0, nameStart));
      setText(repository, target.repository.slice(nameStart));
      setText(branch, target.branch);
      const text = troubleOf(target) ?? '';
      setText(trouble, text);
      trouble.title = printable(text);
      toggle.title = printable(target.target);
      for (const { column, cell } of cells) fillCell(column.name, cell, target);
      if (isOpen) refill(holder, target, () => [detailsOf(target, announce)]);
      tick(row, nowMs);
      tick(detail, nowMs);
    },
  };
}

/** @param {typeof COLUMNS[number]['name']} name @param {Element} cell @param {Target} target */
function fillCell(name, cell, target) {
  if (name === 'target') return;
  const { state, verifiedAtMs, changedAtMs, checkedAtMs, files, sizeBytes } = target;
  const data = {
    state,
    verified: verifiedAtMs,
    changed: changedAtMs,
    compared: checkedAtMs,
    files,
    size: sizeBytes,
  };
  refill(cell, data[name], () => CELLS[name](target));
}
