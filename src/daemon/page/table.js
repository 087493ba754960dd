/** The table of targets: one page of the chosen ones, with search, filters by state, and order. */

import { button, byId, element, setText } from './dom.js';
import { sizeText } from '../../lib/page/text.js';
import { detailsOf } from './details.js';
import { numberText } from './format.js';
import { badge, refill, timeNode } from './nodes.js';
import { arrange, COLUMNS, countStates, fromQuery, STATES, toQuery, troubleOf, wordOf } from './targets.js';

/** @import { Child } from './dom.js' */
/** @import { Choice, ColumnName, Selection, Target, TargetState } from './targets.js' */

/** Targets on a page. */
const PAGE_SIZE = 100;

/** @param {TargetState} state */
const stateBadge = (state) => badge(STATES[state].tone, wordOf(state));

/** The cells of a row except its heading. @type {Readonly<Record<Exclude<ColumnName, 'target'>, (target: Target) => Child>>} */
const CELLS = {
  state: ({ state }) => stateBadge(state),
  verified: ({ verifiedAtMs }) => timeNode(verifiedAtMs),
  changed: ({ changedAtMs }) => timeNode(changedAtMs),
  files: ({ files }) => numberText(files),
  size: ({ sizeBytes }) => sizeText(sizeBytes),
};

/** The table. The choice is kept in the address, so that it can be shared. */
export class TargetTable {
  /** @type {readonly Target[]} */
  #targets = [];
  #choice = fromQuery(location.search);
  /** The names of the targets whose details are open. @type {Set<string>} */
  #open = new Set();
  #search = byId('search', HTMLInputElement);
  #body = byId('targets-body');
  #onChoice;

  /** @param {() => void} onChoice called when the user changes the choice */
  constructor(onChoice) {
    this.#onChoice = onChoice;
    this.#search.value = this.#choice.search;
    this.#search.addEventListener('input', () => this.#choose({ search: this.#search.value }));
    this.#search.addEventListener('keydown', ({ key }) => {
      if (key === 'Escape') this.#choose({ search: '' });
    });
    document.addEventListener('keydown', (event) => this.#onKey(event));
    byId('targets-head').append(element('tr', {}, ...COLUMNS.map((column) => this.#headCell(column))));
  }

  /** @param {readonly Target[]} targets */
  show(targets) {
    this.#targets = targets;
    const chosen = arrange(targets, this.#choice);
    const pages = Math.max(1, Math.ceil(chosen.length / PAGE_SIZE));
    const page = Math.min(this.#choice.page, pages - 1);
    const start = page * PAGE_SIZE;
    const shown = chosen.slice(start, start + PAGE_SIZE);
    this.#showFilters();
    for (const cell of byId('targets-head').querySelectorAll('th')) {
      const isSorted = cell.dataset['column'] === this.#choice.column;
      if (isSorted) cell.setAttribute('aria-sort', this.#choice.isDescending ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    }
    const isOpen = shown.map(({ target }) => this.#open.has(target));
    refill(this.#body, [shown, isOpen], () => shown.flatMap((target) => this.#rowsOf(target)));
    const all = numberText(targets.length);
    setText(
      byId('targets-count'),
      chosen.length === targets.length ? all : `${numberText(chosen.length)} of ${all}`,
    );
    this.#showPages(page, pages, `${numberText(start + 1)} to ${numberText(start + shown.length)}`);
    byId('targets-none').hidden = chosen.length > 0;
    setText(byId('targets-none'), targets.length === 0 ? 'There are no targets yet.' : this.#noneText());
  }

  /** Shows the targets of a selection, and scrolls there. @param {Partial<Selection>} selection */
  select(selection) {
    this.#choose({ search: '', state: null, ...selection });
    byId('targets').scrollIntoView({ block: 'start' });
    byId('targets').focus({ preventScroll: true });
  }

  /** @param {Partial<Choice>} choice */
  #choose(choice) {
    this.#choice = { ...this.#choice, page: 0, ...choice };
    if (this.#search.value !== this.#choice.search) this.#search.value = this.#choice.search;
    const query = toQuery(this.#choice);
    history.replaceState(null, '', query === '' ? location.pathname : `?${query}`);
    this.#onChoice();
  }

  /** The slash key focuses the search, except while typing. @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key !== '/' || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target instanceof Element && event.target.matches('input')) return;
    event.preventDefault();
    this.#search.focus();
    this.#search.select();
  }

  /** @param {typeof COLUMNS[number]} column @returns {HTMLElement} */
  #headCell({ name, title, startsDescending }) {
    const sort = () => {
      const { column, isDescending } = this.#choice;
      this.#choose({ column: name, isDescending: column === name ? !isDescending : startsDescending });
    };
    const attributes = { scope: 'col', class: `column-${name}`, 'data-column': name };
    return element('th', attributes, button({ class: 'sort' }, sort, title));
  }

  #showFilters() {
    const { state: chosen } = this.#choice;
    const counts = countStates(this.#targets);
    // An active filter stays, even if no target is in that state any more.
    if (chosen !== null && !counts.some(({ state }) => state === chosen))
      counts.unshift({ state: chosen, count: 0 });
    refill(byId('filters'), [counts, chosen], () => [
      this.#filter(null, this.#targets.length),
      ...counts.map(({ state, count }) => this.#filter(state, count)),
    ]);
  }

  /** @param {TargetState | null} state @param {number} count @returns {HTMLElement} */
  #filter(state, count) {
    const isPressed = this.#choice.state === state;
    const attributes = {
      class: 'filter',
      'data-key': `filter ${state}`,
      title: state === null ? null : STATES[state].meaning,
      'aria-pressed': String(isPressed),
    };
    return button(
      attributes,
      () => this.#choose({ state: isPressed ? null : state }),
      state === null ? element('span', { class: 'badge' }, 'All') : stateBadge(state),
      element('span', { class: 'count' }, numberText(count)),
    );
  }

  /** @param {number} page @param {number} pages @param {string} range */
  #showPages(page, pages, range) {
    byId('pages').hidden = pages === 1;
    refill(byId('pages'), [page, pages, range], () => [
      this.#turn('Previous', page - 1, page > 0),
      element('span', {}, range),
      this.#turn('Next', page + 1, page < pages - 1),
    ]);
  }

  /** @param {string} word @param {number} page @param {boolean} isThere @returns {HTMLElement} */
  #turn(word, page, isThere) {
    const turn = () => {
      this.#choose({ page });
      byId('targets').scrollIntoView({ block: 'start' });
    };
    return button({ class: 'quiet', 'data-key': word, disabled: !isThere }, turn, word);
  }

  /** @returns {string} */
  #noneText() {
    const { search, state } = this.#choice;
    const words = search.trim() === '' ? '' : ` matches “${search.trim()}”`;
    return `No target${words}${state === null ? '' : `${words === '' ? '' : ' and'} is ${wordOf(state)}`}.`;
  }

  /** @param {Target} target @returns {HTMLElement[]} */
  #rowsOf(target) {
    const isOpen = this.#open.has(target.target);
    const trouble = troubleOf(target);
    const nameStart = target.repository.lastIndexOf('/', target.repository.length - 2) + 1;
    const toggle = button(
      {
        class: 'row-toggle',
        'data-key': `row ${target.target}`,
        title: target.target,
        'aria-expanded': String(isOpen),
      },
      () => {
        if (!this.#open.delete(target.target)) this.#open.add(target.target);
        this.#onChoice();
      },
      element('span', { class: 'chevron', 'aria-hidden': 'true' }),
      element(
        'span',
        { class: 'name' },
        element('bdi', { class: 'folder' }, target.repository.slice(0, nameStart)),
        element('bdi', { class: 'repository' }, target.repository.slice(nameStart)),
      ),
      element('bdi', { class: 'branch' }, target.branch),
      trouble === null ? null : element('bdi', { class: 'row-trouble' }, trouble),
    );
    const row = element(
      'tr',
      { class: 'target' },
      element('th', { scope: 'row', class: 'column-target' }, toggle),
      ...COLUMNS.flatMap(({ name }) =>
        name === 'target' ? [] : [element('td', { class: `column-${name}` }, CELLS[name](target))],
      ),
    );
    if (!isOpen) return [row];
    const details = element('td', { colspan: COLUMNS.length }, detailsOf(target));
    return [row, element('tr', { class: 'detail' }, details)];
  }
}
