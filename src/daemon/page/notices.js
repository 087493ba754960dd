/** The recent warnings and errors. */

import { byId, element } from '../../lib/page/dom.js';
import { refill } from './refill.js';
import { timeNode } from './times.js';
import { badge } from './signs.js';

/** @import { Report, Tone } from './targets.js' */

/** So many at first. */
const SHOWN_FIRST = 8;

/** @type {Readonly<Record<string, { word: string, tone: Tone }>>} */
const LEVELS = {
  error: { word: 'error', tone: 'bad' },
  warn: { word: 'warning', tone: 'warn' },
};

/** The list of warnings and errors, the latest first, with a button for all of them. */
export class Notices {
  #isWhole = false;
  #button = byId('notices-more');
  #onChange;

  /** @param {() => void} onChange called when the reader asks for more, or less */
  constructor(onChange) {
    this.#onChange = onChange;
    this.#button.addEventListener('click', () => {
      this.#isWhole = !this.#isWhole;
      this.#onChange();
    });
  }

  /** @param {Report['notices']} notices the latest last */
  show(notices) {
    const shown = [...notices].reverse().slice(0, this.#isWhole ? notices.length : SHOWN_FIRST);
    this.#button.hidden = notices.length <= SHOWN_FIRST;
    this.#button.setAttribute('aria-expanded', String(this.#isWhole));
    this.#button.textContent = this.#isWhole ? 'Show fewer' : `Show all ${notices.length}`;
    refill(byId('notices'), shown, () =>
      shown.length === 0
        ? [element('li', { class: 'dim' }, 'None since the daemon started.')]
        : shown.map(({ atMs, level, event, message }) => {
            const { word, tone } = LEVELS[level] ?? { word: level, tone: 'off' };
            return element(
              'li',
              {},
              element('span', { class: 'when' }, timeNode(atMs)),
              badge(tone, word),
              element(
                'div',
                {},
                element('p', { class: 'message' }, message),
                element('code', { class: 'dim' }, event),
              ),
            );
          }),
    );
  }
}
