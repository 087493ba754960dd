/** The reader's choice of targets: search, state, order. It is kept in the address, so that it can be passed on. */

import { button, byId, element, setText } from '../../lib/page/dom.js';
import { refill } from './refill.js';
import { numberText } from './format.js';
import { badge } from './signs.js';
import { COLUMNS, countStates, FIRST_ORDER, STATES } from './targets.js';

/** @import { TargetState } from '../../app/target-status.ts' */
/** @import { ColumnName, Order, Selection, Target } from './targets.js' */

/** The search field, the filters by state, and the order. */
export class Controls {
  /** @type {Selection} */
  selection;
  /** @type {Order} */
  order;
  #search = byId('search', HTMLInputElement);
  #sortBy = byId('sort-by', HTMLSelectElement);
  #onChange;

  /** @param {() => void} onChange called when the reader chooses otherwise */
  constructor(onChange) {
    this.#onChange = onChange;
    const chosen = fromAddress(new URLSearchParams(location.search));
    this.selection = chosen.selection;
    this.order = chosen.order;
    this.#search.value = this.selection.search;
    this.#sortBy.append(...sortOptions());
    this.#search.addEventListener('input', () =>
      this.select({ ...this.selection, search: this.#search.value }),
    );
    this.#search.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.#search.value !== '') this.select({ ...this.selection, search: '' });
    });
    this.#sortBy.addEventListener('change', () => {
      const [column = 'state', direction] = this.#sortBy.value.split(' ');
      this.sort({ column: columnOf(column), isDescending: direction === 'descending' });
    });
    document.addEventListener('keydown', (event) => this.#onKey(event));
    this.#showOrder();
  }

  /** Chooses targets. @param {Selection} selection */
  select(selection) {
    this.selection = selection;
    if (this.#search.value !== selection.search) this.#search.value = selection.search;
    this.#changed();
  }

  /** Chooses an order. @param {Order} order */
  sort(order) {
    this.order = order;
    this.#showOrder();
    this.#changed();
  }

  /**
   * Shows the filters, and how many targets are chosen.
   * @param {readonly Target[]} targets
   * @param {number} shown
   */
  show(targets, shown) {
    const { search, state } = this.selection;
    const counts = countStates(targets);
    // A filter that is on stays, even where nothing is in that state any more.
    const filters =
      state === null || counts.some((each) => each.state === state)
        ? counts
        : [{ state, count: 0 }, ...counts];
    refill(byId('filters'), [filters, state, targets.length], () => [
      filterButton('All', null, targets.length, state === null, () =>
        this.select({ ...this.selection, state: null }),
      ),
      ...filters.map((each) =>
        filterButton(each.state, each.state, each.count, state === each.state, () =>
          this.select({ ...this.selection, state: state === each.state ? null : each.state }),
        ),
      ),
    ]);
    const isAll = shown === targets.length;
    setText(
      byId('targets-count'),
      isAll ? numberText(shown) : `${numberText(shown)} of ${numberText(targets.length)}`,
    );
    const none = byId('targets-none');
    none.hidden = shown > 0;
    setText(none, targets.length === 0 ? 'There are no targets yet.' : noneText(search, state));
  }

  #changed() {
    history.replaceState(null, '', toAddress(this.selection, this.order));
    this.#onChange();
  }

  #showOrder() {
    const { column, isDescending } = this.order;
    this.#sortBy.value = `${column} ${isDescending ? 'descending' : 'ascending'}`;
  }

  /** A slash goes to the search, except where it is written. @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key !== '/' || event.ctrlKey || event.altKey || event.metaKey) return;
    const { target } = event;
    if (target instanceof Element && target.matches('input, select, textarea')) return;
    event.preventDefault();
    this.#search.focus();
    this.#search.select();
  }
}

/** @param {string} search @param {TargetState | null} state @returns {string} */
function noneText(search, state) {
  const words = search.trim() === '' ? '' : ` matches “${search.trim()}”`;
  return `No target${words}${state === null ? '' : `${words === '' ? '' : ' and'} is ${state}`}.`;
}

/**
 * @param {string} word
 * @param {TargetState | null} state
 * @param {number} count
 * @param {boolean} isPressed
 * @param {() => void} onClick
 * @returns {HTMLElement}
 */
function filterButton(word, state, count, isPressed, onClick) {
  const attributes = {
    class: 'filter',
    'data-key': `filter ${word}`,
    title: state === null ? null : STATES[state].meaning,
    'aria-pressed': String(isPressed),
  };
  return button(
    attributes,
    onClick,
    state === null ? element('span', { class: 'badge' }, word) : badge(STATES[state].tone, word),
    element('span', { class: 'count' }, numberText(count)),
  );
}

/** @returns {HTMLElement[]} */
function sortOptions() {
  return COLUMNS.flatMap(({ name, title }) => [
    element('option', { value: `${name} ascending` }, `${title} ↑`),
    element('option', { value: `${name} descending` }, `${title} ↓`),
  ]);
}

/** @param {string | null} name @returns {ColumnName} */
function columnOf(name) {
  return COLUMNS.find((column) => column.name === name)?.name ?? FIRST_ORDER.column;
}

/** @param {URLSearchParams} parameters @returns {{ selection: Selection, order: Order }} */
function fromAddress(parameters) {
  const state = parameters.get('state');
  const sort = parameters.get('sort');
  return {
    selection: {
      search: parameters.get('search') ?? '',
      state: state !== null && Object.hasOwn(STATES, state) ? /** @type {TargetState} */ (state) : null,
    },
    order:
      sort === null
        ? FIRST_ORDER
        : { column: columnOf(sort), isDescending: parameters.get('direction') === 'descending' },
  };
}

/** @param {Selection} selection @param {Order} order @returns {string} */
function toAddress({ search, state }, { column, isDescending }) {
  const parameters = new URLSearchParams();
  if (search !== '') parameters.set('search', search);
  if (state !== null) parameters.set('state', state);
  if (column !== FIRST_ORDER.column || isDescending !== FIRST_ORDER.isDescending) {
    parameters.set('sort', column);
    parameters.set('direction', isDescending ? 'descending' : 'ascending');
  }
  const query = parameters.toString();
  return query === '' ? location.pathname : `?${query}`;
}
