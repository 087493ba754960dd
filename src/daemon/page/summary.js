/** The first glance: the state, what is mirrored where, and the pass in hand or the next one. */

import { byId, drawing, element, setText } from '../../lib/page/dom.js';
import { durationText, sizeText } from '../../lib/page/text.js';
import { refill } from './refill.js';
import { timeNode } from './times.js';
import { fact } from './details.js';
import { counted, numberText } from './format.js';
import { passClause } from './charts.js';
import { sign } from './signs.js';
import { countStates, STATES } from './targets.js';

/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Overall } from './overall.js' */
/** @import { Report } from './targets.js' */

/** Names of targets in hand that are shown; of the others, their number is. */
const PULLING_SHOWN = 4;

/**
 * Shows the state of the whole.
 * @param {Report} report
 * @param {Overall} overall
 */
export function showSummary(report, overall) {
  byId('summary').className = `card summary tone-${overall.tone}`;
  refill(byId('state-sign'), overall.tone, () => [sign(overall.tone)]);
  setText(byId('state'), overall.word);
  setText(byId('sentence'), overall.sentence);
  setText(byId('version'), report.version);
  const counts = countStates(report.targets);
  refill(byId('share'), counts, () => [shareBar(counts, report.targets.length)]);
  const { service, directory, schedule, timezone, live } = report;
  const { startedAtMs } = live;
  refill(byId('identity'), { service, directory, schedule, timezone, startedAtMs }, () => [
    ...fact('Service', element('bdi', {}, service)),
    ...fact('Directory', element('bdi', {}, directory)),
    ...fact('Schedule', element('code', {}, schedule), ` ${timezone}`),
    ...fact('Running for', timeNode(startedAtMs, 'elapsed')),
  ]);
}

/** @param {ReturnType<typeof countStates>} counts @param {number} total @returns {SVGElement} */
function shareBar(counts, total) {
  let x = 0;
  // The best at the left: what is not well is what one looks for at the end of the bar.
  const parts = [...counts].reverse().map(({ state, count }) => {
    const width = (100 * count) / total;
    const part = drawing(
      'rect',
      { x, y: 0, width, height: 1, class: `fill tone-${STATES[state].tone}` },
      drawing('title', {}, `${state}: ${numberText(count)}`),
    );
    x += width;
    return part;
  });
  return drawing('svg', { viewBox: '0 0 100 1', preserveAspectRatio: 'none' }, ...parts);
}

/**
 * Shows the pass in hand, or when the next one is due and how the last one ended.
 * @param {Report} report
 */
export function showPass({ live, liveness, maxStalenessMs, pulls, scan }) {
  const { pass, slow, passes, nextPassAtMs } = live;
  const last = passes.at(-1) ?? null;
  setText(byId('pass-title'), pass === null ? 'Next pass' : 'Pass in hand');
  const shown = [pass, slow, last, nextPassAtMs, liveness.state, maxStalenessMs, pulls, scan];
  refill(byId('pass-now'), shown, () => [
    ...(pass === null ? nextPass(nextPassAtMs) : passInHand(pass, pulls)),
    slowPulls(slow, pulls),
    scan === null
      ? null
      : element(
          'p',
          { class: 'dim' },
          `Holding trees against their manifests: ${numberText(scan.doneTargets)} of ${numberText(scan.targets)}.`,
        ),
    lastPass(last),
  ]);
}

/** @param {number | null} nextPassAtMs @returns {Child[]} */
function nextPass(nextPassAtMs) {
  if (nextPassAtMs === null) return [element('p', { class: 'figure' }, 'not known yet')];
  return [
    element('p', { class: 'figure' }, timeNode(nextPassAtMs, 'countdown')),
    element('p', { class: 'dim' }, 'at ', timeNode(nextPassAtMs, 'clock')),
  ];
}

/**
 * @param {NonNullable<Report['live']['pass']>} pass
 * @param {Report['pulls']} pulls
 * @returns {Child[]}
 */
function passInHand({ trigger, startedAtMs, planned, done, pulling }, pulls) {
  const begun = element('p', { class: 'dim' }, `by ${trigger}, for `, timeNode(startedAtMs, 'elapsed'));
  if (planned === null) return [element('p', { class: 'figure' }, 'Asking the service'), begun];
  const { pull, keep, hold, retire } = planned;
  const progress = element('progress', { max: Math.max(1, pull), value: Math.min(done, pull) });
  progress.setAttribute('aria-label', 'Targets pulled');
  const others = pulling.length - PULLING_SHOWN;
  return [
    element(
      'p',
      { class: 'figure' },
      numberText(done),
      element('span', { class: 'of' }, ` of ${counted(pull, 'pull')} done`),
    ),
    progress,
    begun,
    element('p', { class: 'dim' }, `Plan: pull ${pull}, keep ${keep}, hold ${hold}, retire ${retire}.`),
    pulling.length === 0
      ? null
      : element(
          'ul',
          { class: 'pulling', 'aria-label': 'Being pulled' },
          ...pulling
            .slice(0, PULLING_SHOWN)
            .map((name) => element('li', { title: name }, element('bdi', {}, name), progressOf(name, pulls))),
          others > 0 ? element('li', { class: 'dim' }, `and ${others} more`) : null,
        ),
  ];
}

/**
 * The progress of a target's pull, shown below its name; null while none is under way.
 * @param {string} name
 * @param {Report['pulls']} pulls
 * @returns {Child}
 */
function progressOf(name, pulls) {
  const pull = pulls.find(({ target }) => target === name);
  return pull === undefined ? null : element('span', { class: 'dim progress-text' }, ` ${pullText(pull)}`);
}

/**
 * @param {Report['live']['slow']} slow
 * @param {Report['pulls']} pulls
 * @returns {HTMLElement | null}
 */
function slowPulls(slow, pulls) {
  if (slow.length === 0) return null;
  const others = slow.length - PULLING_SHOWN;
  return element(
    'ul',
    { class: 'pulling', 'aria-label': 'Taking long' },
    ...slow
      .slice(0, PULLING_SHOWN)
      .map(({ target, startedAtMs }) =>
        element(
          'li',
          { title: `${target} takes long; the others do not wait for it` },
          'for ',
          timeNode(startedAtMs, 'elapsed'),
          ': ',
          element('bdi', {}, target),
          progressOf(target, pulls),
        ),
      ),
    others > 0 ? element('li', { class: 'dim' }, `and ${others} more that take long`) : null,
  );
}

/** @param {Report['live']['passes'][number] | null} last @returns {HTMLElement} */
function lastPass(last) {
  if (last === null) return element('p', { class: 'last-pass' }, 'No pass has finished yet.');
  const { summary } = last;
  const pulled =
    summary === null || summary.pulled === 0 ? '' : `; ${sizeText(summary.downloadedBytes)} downloaded`;
  return element(
    'p',
    { class: 'last-pass' },
    element('strong', {}, 'Last pass '),
    timeNode(last.startedAtMs + last.durationMs),
    ` by ${last.trigger}, in ${durationText(last.durationMs)}: ${last.result === 'failed' ? 'failed' : passClause(last)}${pulled}.`,
  );
}

/**
 * The progress of a pull: `downloading 512 MB of 2.1 GB, 41 MB/s, 38 s left`.
 * @param {Report['pulls'][number]} pull
 * @returns {string}
 */
export function pullText({ phase, doneBytes, totalBytes, isEstimate, bytesPerSecond, leftMs }) {
  if (doneBytes === 0 && totalBytes === null) return phase;
  const isBeyond = totalBytes !== null && doneBytes > totalBytes;
  const total =
    totalBytes === null || isBeyond ? '' : ` of ${isEstimate ? 'about ' : ''}${sizeText(totalBytes)}`;
  return [
    `${phase} ${sizeText(doneBytes)}${total}`,
    ...(bytesPerSecond === null ? [] : [`${sizeText(Math.round(bytesPerSecond))}/s`]),
    ...(leftMs === null || isBeyond ? [] : [`${durationText(leftMs)} left`]),
  ].join(', ');
}
