/** Draws the charts, as wide as their places are, with the numbers beside them for whoever cannot see them. */

import { byId, drawing, element, setText } from '../../lib/page/dom.js';
import { durationText } from '../../lib/page/text.js';
import {
  barsOf,
  lagBuckets,
  lagSentence,
  oldestOf,
  outcomeOf,
  passBars,
  passClause,
  passesSentence,
} from './charts.js';
import { refill } from './refill.js';
import { localRange, timeNode } from './times.js';
import { numberText } from './format.js';

/** @import { LagBucket, PassBar } from './charts.js' */
/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Report } from './targets.js' */

const LAG_HEIGHT_PX = 110;
const LAG_GAP_PX = 8;
const PASSES_HEIGHT_PX = 104;
/** Between two bars of passes, so that 300 of them fit a wide screen and a few are no slabs. */
const NARROWEST_STEP_PX = 4;
const WIDEST_STEP_PX = 14;
/** The room for the durations at the right. */
const SCALE_PX = 56;
/** The room that a time below the chart takes. */
const ENDS_PX = 110;
/** Passes in the table of numbers. */
const PASSES_LISTED = 40;

/**
 * Shows how long ago the targets were verified.
 * @param {Report} report
 * @param {number} nowMs milliseconds since the epoch
 */
export function showLag(report, nowMs) {
  const buckets = lagBuckets(report.targets, report.maxStalenessMs, nowMs);
  const oldest = oldestOf(report);
  const limit = durationText(report.maxStalenessMs);
  refill(byId('lag-oldest'), [oldest?.target, oldest?.verifiedAtMs, limit], () =>
    oldest === null
      ? ['There are no targets yet.']
      : [
          `Stale after ${limit}. Oldest: `,
          timeNode(oldest.verifiedAtMs),
          ', ',
          element('bdi', { title: oldest.target }, oldest.target),
        ],
  );
  const place = byId('lag-chart');
  const widthPx = place.clientWidth;
  refill(place, [buckets, widthPx], () => [lagChart(buckets, widthPx)]);
  refill(byId('lag-numbers'), buckets, () => [
    table(
      'Targets by time since last verified',
      ['Verified', 'Targets'],
      buckets.map(({ label, count }) => [label, numberText(count)]),
    ),
  ]);
}

/** @param {LagBucket[]} buckets @param {number} widthPx @returns {SVGElement} */
function lagChart(buckets, widthPx) {
  const heightPx = LAG_HEIGHT_PX - 18;
  const counts = buckets.map(({ count }) => count);
  const bars = barsOf(counts, { widthPx, heightPx, gapPx: LAG_GAP_PX });
  const isNarrow = widthPx / buckets.length < 52;
  const nodes = bars.flatMap((box, index) => {
    const { label, count, tone } = buckets[index] ?? { label: '', count: 0, tone: 'off' };
    const { x, width, height } = box;
    const middle = x + width / 2;
    return [
      drawing('rect', { x, y: 18, width, height: heightPx, class: 'slot', rx: 3 }),
      drawing('rect', { x, y: box.y + 18, width, height, class: `fill tone-${tone}`, rx: 3 }),
      count === 0 ? null : drawing('text', { x: middle, y: box.y + 13, class: 'value' }, numberText(count)),
      drawing(
        'text',
        { x: middle, y: LAG_HEIGHT_PX + 15, class: isNarrow ? 'small' : null },
        isNarrow ? label.replace('≤ ', '') : label,
      ),
    ];
  });
  const limitAt = bars[buckets.findIndex(({ tone }) => tone !== 'ok')];
  const limitX = (limitAt?.x ?? 0) - LAG_GAP_PX / 2;
  const limit = drawing('line', { x1: limitX, x2: limitX, y1: 6, y2: LAG_HEIGHT_PX, class: 'limit' });
  return chart(widthPx, LAG_HEIGHT_PX + 22, lagSentence(buckets), [...nodes, limit]);
}

/**
 * Shows the history of passes.
 * @param {Report} report
 */
export function showPasses({ live }) {
  const { passes } = live;
  const sentence = passesSentence(passes);
  const place = byId('passes-chart');
  const widthPx = place.clientWidth;
  const latest = passes.at(-1);
  refill(place, [passes.length, latest, widthPx], () => {
    setText(byId('passes-readout'), sentence);
    return passes.length === 0 ? [] : [passesChart(passes, widthPx, sentence), legend(passes)];
  });
  if (passes.length === 0) setText(byId('passes-readout'), sentence);
  byId('passes-more').hidden = passes.length === 0;
  refill(byId('passes-numbers'), [passes.length, latest], () => [
    table(
      'The latest passes',
      ['Started', 'By', 'Took', 'Result'],
      [...passes]
        .reverse()
        .slice(0, PASSES_LISTED)
        .map((pass) => [
          timeNode(pass.startedAtMs),
          pass.trigger,
          durationText(pass.durationMs),
          passClause(pass),
        ]),
    ),
  ]);
}

/** @param {Report['live']['passes']} passes @param {number} widthPx @param {string} sentence @returns {SVGElement} */
function passesChart(passes, widthPx, sentence) {
  const heightPx = PASSES_HEIGHT_PX - 8;
  const plotPx = Math.max(40, widthPx - SCALE_PX);
  const stepPx = Math.max(NARROWEST_STEP_PX, Math.min(WIDEST_STEP_PX, plotPx / passes.length));
  const { bars, topMs } = passBars(passes, { widthPx: plotPx, heightPx, stepPx });
  const grid = [1, 0.5].flatMap((share) => {
    const y = 8 + heightPx * (1 - share);
    return [
      drawing('line', { x1: 0, x2: plotPx, y1: y, y2: y, class: 'grid' }),
      drawing('text', { x: plotPx + 6, y: y + 4, class: 'left' }, durationText(topMs * share)),
    ];
  });
  const base = drawing('line', { x1: 0, x2: plotPx, y1: heightPx + 8.5, y2: heightPx + 8.5, class: 'base' });
  const drawn = bars.map((bar) => barNode(bar, heightPx));
  const ends = endsOf(bars, plotPx, PASSES_HEIGHT_PX + 28);
  const svg = chart(widthPx, PASSES_HEIGHT_PX + 34, sentence, [...grid, base, ...drawn, ...ends]);
  svg.addEventListener('pointermove', (event) => {
    const x = event.clientX - svg.getBoundingClientRect().left;
    const bar = bars.find(({ box }) => x >= box.x - 1 && x < box.x + box.width + 1);
    if (bar !== undefined) readOut(bar);
  });
  svg.addEventListener('pointerleave', () => setText(byId('passes-readout'), sentence));
  return svg;
}

/** When the first and the last bar began, if there is room. @param {PassBar[]} bars @param {number} plotPx @param {number} y @returns {Child[]} */
function endsOf(bars, plotPx, y) {
  const first = bars[0];
  const last = bars.at(-1);
  if (first === undefined || last === undefined || plotPx - first.box.x < 2 * ENDS_PX) return [];
  const text = localRange(first.pass.startedAtMs, last.pass.startedAtMs);
  return [
    text.from === text.to ? null : drawing('text', { x: first.box.x, y, class: 'left' }, text.from),
    drawing('text', { x: plotPx, y, class: 'right' }, text.to),
  ];
}

/** @param {PassBar} bar */
function readOut({ pass }) {
  const text = ` by ${pass.trigger}, ${durationText(pass.durationMs)}: ${passClause(pass)}`;
  const node = element('span', {}, timeNode(pass.startedAtMs, 'clock'), text);
  byId('passes-readout').replaceChildren(node);
}

/** @param {PassBar} bar @param {number} heightPx @returns {SVGElement} */
function barNode({ box, outcome }, heightPx) {
  const { x, y, width, height } = box;
  const middle = x + width / 2;
  const sign = signPath(outcome, middle, heightPx + 16);
  return drawing(
    'g',
    { class: `pass ${outcome}` },
    drawing('rect', { x, y: y + 8, width, height, rx: Math.min(2, width / 2) }),
    sign === null ? null : drawing('path', { d: sign }),
  );
}

/** @param {PassBar['outcome']} outcome @param {number} x @param {number} y @returns {string | null} */
function signPath(outcome, x, y) {
  switch (outcome) {
    case 'failed':
      return `M${x - 3} ${y - 3}l6 6M${x + 3} ${y - 3}l-6 6`;
    case 'partly':
      return `M${x} ${y - 3}l3.5 6h-7Z`;
    case 'changed':
      return `M${x - 1.5} ${y}a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0`;
    case 'abandoned':
      return `M${x - 3} ${y}h6`;
    case 'quiet':
      return null;
  }
}

/** Only of what there is. @param {Report['live']['passes']} passes @returns {HTMLElement} */
function legend(passes) {
  const outcomes = new Set(passes.map(outcomeOf));
  const words = /** @type {const} */ ([
    ['quiet', 'nothing changed'],
    ['changed', 'something changed'],
    ['partly', 'targets failed'],
    ['failed', 'failed'],
    ['abandoned', 'abandoned'],
  ]);
  return element(
    'ul',
    { class: 'legend', 'aria-hidden': 'true' },
    ...words
      .filter(([outcome]) => outcomes.has(outcome))
      .map(([outcome, word]) => {
        const sign = signPath(outcome, 7, 14);
        const mark = drawing(
          'svg',
          { viewBox: '0 0 14 18', class: `pass ${outcome}` },
          drawing('rect', { x: 5, y: 1, width: 4, height: 9, rx: 1 }),
          sign === null ? null : drawing('path', { d: sign }),
        );
        return element('li', {}, mark, word);
      }),
  );
}

/** @param {number} widthPx @param {number} heightPx @param {string} label @param {readonly Child[]} nodes @returns {SVGSVGElement} */
function chart(widthPx, heightPx, label, nodes) {
  return drawing('svg', { width: widthPx, height: heightPx, role: 'img', 'aria-label': label }, ...nodes);
}

/** @param {string} caption @param {readonly string[]} heads @param {readonly (readonly Child[])[]} rows @returns {HTMLElement} */
function table(caption, heads, rows) {
  return element(
    'table',
    {},
    element('caption', { class: 'unseen' }, caption),
    element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head)))),
    element(
      'tbody',
      {},
      ...rows.map((row) => element('tr', {}, ...row.map((cell) => element('td', {}, cell)))),
    ),
  );
}
