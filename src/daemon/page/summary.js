/** The first glance: the state, service and directory, the current or next pass, and the latest passes. */

import { byId, drawing, element, setText } from './dom.js';
import { durationText, sizeText } from '../../lib/page/text.js';
import { counted, numberText } from './format.js';
import { fact, refill, sign, timeNode } from './nodes.js';
import { countStates, STATES, wordOf } from './targets.js';

/** @import { Child } from './dom.js' */
/** @import { Overall } from './overall.js' */
/** @import { Report, Tone } from './targets.js' */
/** @typedef {Report['live']['passes'][number]} PassNote */

/** Most names of current targets that are shown; the others are counted. */
const PULLING_SHOWN = 4;

/** Passes in the chart. */
const PASSES_SHOWN = 100;

/**
 * Shows the overall state.
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
  refill(byId('identity'), [service, directory, schedule, timezone, live.startedAtMs], () => [
    ...fact('Service', element('bdi', {}, service)),
    ...fact('Directory', element('bdi', {}, directory)),
    ...fact('Schedule', element('code', {}, schedule), ` ${timezone}`),
    ...fact('Running for', timeNode(live.startedAtMs, 'elapsed')),
  ]);
}

/** The best state is at the left. @param {ReturnType<typeof countStates>} counts @param {number} total @returns {SVGElement} */
function shareBar(counts, total) {
  let x = 0;
  const parts = counts.toReversed().map(({ state, count }) => {
    const width = (100 * count) / total;
    const title = drawing('title', {}, `${wordOf(state)}, ${numberText(count)}`);
    const part = drawing('rect', { x, width, height: 1, class: `fill tone-${STATES[state].tone}` }, title);
    x += width;
    return part;
  });
  return drawing('svg', { viewBox: '0 0 100 1', preserveAspectRatio: 'none' }, ...parts);
}

/** Shows the current pass, or when the next one is due, and the result of the last one. @param {Report} report */
export function showPass({ live, pulls, scan }) {
  const { pass, slow, passes, nextPassAtMs } = live;
  const last = passes.at(-1) ?? null;
  setText(byId('pass-title'), pass === null ? 'Next pass' : 'Current pass');
  refill(byId('pass-now'), [pass, slow, last, nextPassAtMs, pulls, scan], () => [
    ...(pass === null ? nextPass(nextPassAtMs) : passInHand(pass)),
    pullList([...new Set([...(pass?.pulling ?? []), ...slow.map(({ target }) => target)])], pulls),
    scan === null
      ? null
      : element(
          'p',
          { class: 'dim' },
          `Comparing trees with their manifests: ${numberText(scan.doneTargets)} of ${numberText(scan.targets)}.`,
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

/** @param {NonNullable<Report['live']['pass']>} pass @returns {Child[]} */
function passInHand({ trigger, startedAtMs, planned, done }) {
  const begun = element('p', { class: 'dim' }, `by ${trigger}, for `, timeNode(startedAtMs, 'elapsed'));
  if (planned === null) return [element('p', { class: 'figure' }, 'Asking the service'), begun];
  const { pull, keep, hold, retire } = planned;
  const of = element('span', { class: 'of' }, ` of ${counted(pull, 'pull')} done`);
  return [
    element('p', { class: 'figure' }, numberText(done), of),
    element('progress', {
      max: Math.max(1, pull),
      value: Math.min(done, pull),
      'aria-label': 'Targets pulled',
    }),
    begun,
    element('p', { class: 'dim' }, `Plan: pull ${pull}, keep ${keep}, hold ${hold}, retire ${retire}.`),
  ];
}

/** @param {readonly string[]} targets @param {Report['pulls']} pulls @returns {Child} */
function pullList(targets, pulls) {
  if (targets.length === 0) return null;
  const others = targets.length - PULLING_SHOWN;
  return element(
    'ul',
    { class: 'pulling', 'aria-label': 'Being pulled' },
    ...targets.slice(0, PULLING_SHOWN).map((name) => {
      const pull = pulls.find(({ target }) => target === name);
      const progress = pull === undefined ? '' : ` ${pullText(pull)}`;
      return element(
        'li',
        { title: name },
        element('bdi', {}, name),
        element('span', { class: 'dim' }, progress),
      );
    }),
    others > 0 ? element('li', { class: 'dim' }, `and ${numberText(others)} more`) : null,
  );
}

/** @param {PassNote | null} last @returns {HTMLElement} */
function lastPass(last) {
  if (last === null) return element('p', { class: 'last-pass' }, 'No pass has finished yet.');
  return element(
    'p',
    { class: 'last-pass' },
    element('strong', {}, 'Last pass '),
    timeNode(last.startedAtMs + last.durationMs),
    ` by ${last.trigger}, in ${durationText(last.durationMs)}: ${passClause(last)}.`,
  );
}

/** The progress of a pull: `downloading 512 MB of 2.1 GB, 41 MB/s, 38 s left`. @param {Report['pulls'][number]} pull @returns {string} */
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

/** The tone of each outcome of a pass. @param {PassNote} pass @returns {Tone} */
function passTone({ result, summary }) {
  if (result === 'failed') return 'bad';
  if (result === 'abandoned' || summary === null) return 'held';
  if (summary.failed > 0) return 'warn';
  return summary.changed > 0 ? 'ok' : 'off';
}

/** The outcome of a pass, as a clause. @param {PassNote} pass @returns {string} */
function passClause({ result, summary, failure }) {
  if (result === 'failed')
    return failure === null ? 'failed' : `failed: ${failure.message.replace(/\.$/, '')}`;
  if (summary === null || result === 'abandoned') return 'abandoned';
  const { changed, failed, held, downloadedBytes } = summary;
  return [
    changed === 0 ? 'nothing changed' : `${counted(changed, 'target')} changed`,
    ...(failed > 0 ? [`${numberText(failed)} failed`] : []),
    ...(held > 0 ? [`${numberText(held)} held`] : []),
    ...(downloadedBytes > 0 ? [`${sizeText(downloadedBytes)} downloaded`] : []),
  ].join(', ');
}

/** The latest passes in one sentence. @param {readonly PassNote[]} passes @returns {string} */
function passesSentence(passes) {
  if (passes.length === 0) return 'No pass has finished yet.';
  const failed = passes.filter(({ result }) => result === 'failed').length;
  const durations = passes.map(({ durationMs }) => durationMs).sort((a, b) => a - b);
  const median = durationText(durations[Math.floor((durations.length - 1) / 2)] ?? 0);
  const longest = durationText(durations.at(-1) ?? 0);
  const count = counted(passes.length, 'pass', 'passes');
  return `${count}, ${failed === 0 ? 'none' : numberText(failed)} failed. Median ${median}, longest ${longest}.`;
}

/** Shows the latest passes as bars whose height is the duration; hovering over a bar shows details. @param {Report} report */
export function showPasses({ live }) {
  const passes = live.passes.slice(-PASSES_SHOWN);
  const sentence = passesSentence(passes);
  setText(byId('passes-text'), sentence);
  refill(byId('passes-chart'), passes, () => {
    const topMs = Math.max(1, ...passes.map(({ durationMs }) => durationMs));
    const first = PASSES_SHOWN - passes.length;
    const bars = passes.map((pass, index) => {
      const height = Math.max(2, (60 * pass.durationMs) / topMs);
      const at = new Date(pass.startedAtMs).toLocaleString();
      const title = `${at} by ${pass.trigger}, ${durationText(pass.durationMs)}: ${passClause(pass)}`;
      const box = { x: 10 * (first + index) + 1, y: 60 - height, width: 8, height };
      return drawing('rect', { ...box, class: `fill tone-${passTone(pass)}` }, drawing('title', {}, title));
    });
    const viewBox = `0 0 ${10 * PASSES_SHOWN} 60`;
    return [
      drawing('svg', { viewBox, preserveAspectRatio: 'none', role: 'img', 'aria-label': sentence }, ...bars),
    ];
  });
}
