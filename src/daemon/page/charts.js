/** The geometry of the charts: what is drawn where. Everything here is pure; lengths are in CSS pixels. */

import { durationText } from '../../lib/page/text.js';
import { counted, roundDurationMs } from './format.js';
import { isLeftAlone } from './targets.js';

/** @import { PassNote } from '../status/live.ts' */
/** @import { Report, Target, Tone } from './targets.js' */

/** @typedef {{ readonly x: number, readonly y: number, readonly width: number, readonly height: number }} Box */

/**
 * How many targets were verified so long ago.
 * @typedef {{ readonly label: string, readonly count: number, readonly tone: Tone }} LagBucket
 */

/** The upper ends of the buckets, as shares of `maxStaleness`. */
const LAG_SHARES = [0.25, 0.5, 0.75, 1, 2, 8];

/**
 * How the times since the last verification are spread. What the settings leave out is not counted.
 * @param {readonly Target[]} targets
 * @param {number} maxStalenessMs
 * @param {number} nowMs milliseconds since the epoch
 * @returns {LagBucket[]}
 */
export function lagBuckets(targets, maxStalenessMs, nowMs) {
  const counts = LAG_SHARES.map(() => 0);
  let older = 0;
  let never = 0;
  for (const { verifiedAtMs, state } of targets) {
    if (isLeftAlone(state)) continue;
    if (verifiedAtMs === null) {
      never += 1;
      continue;
    }
    const share = (nowMs - verifiedAtMs) / maxStalenessMs;
    const index = LAG_SHARES.findIndex((limit) => share <= limit);
    if (index < 0) older += 1;
    else counts[index] = (counts[index] ?? 0) + 1;
  }
  const last = LAG_SHARES.at(-1) ?? 1;
  return [
    ...LAG_SHARES.map((share, index) => ({
      label: `≤ ${durationText(share * maxStalenessMs)}`,
      count: counts[index] ?? 0,
      tone: /** @type {Tone} */ (share <= 1 ? 'ok' : 'warn'),
    })),
    { label: `> ${durationText(last * maxStalenessMs)}`, count: older, tone: 'bad' },
    { label: 'never', count: never, tone: 'bad' },
  ];
}

/**
 * The target that was verified longest ago; one that never was comes first. Null when there is none.
 * @param {Report} report
 * @returns {Target | null}
 */
export function oldestOf({ targets }) {
  /** @type {Target | null} */
  let oldest = null;
  for (const target of targets) {
    if (isLeftAlone(target.state)) continue;
    if (oldest === null || (target.verifiedAtMs ?? 0) < (oldest.verifiedAtMs ?? 0)) oldest = target;
  }
  return oldest;
}

/**
 * The boxes of upright bars that fill a width. A count above zero is always seen.
 * @param {readonly number[]} counts
 * @param {{ widthPx: number, heightPx: number, gapPx: number }} area
 * @returns {Box[]}
 */
export function barsOf(counts, { widthPx, heightPx, gapPx }) {
  const most = Math.max(1, ...counts);
  const stepPx = counts.length === 0 ? 0 : (widthPx + gapPx) / counts.length;
  return counts.map((count, index) => {
    const height = count === 0 ? 0 : Math.max(3, (count / most) * heightPx);
    return { x: index * stepPx, y: heightPx - height, width: Math.max(1, stepPx - gapPx), height };
  });
}

/**
 * A pass as a bar, and the sign below it.
 * @typedef {object} PassBar
 * @property {PassNote} pass
 * @property {Box} box
 * @property {'failed' | 'partly' | 'changed' | 'abandoned' | 'quiet'} outcome
 */

/**
 * The bars of the latest passes, the last at the right, as many as there is room for.
 * @param {readonly PassNote[]} passes the latest last
 * @param {{ widthPx: number, heightPx: number, stepPx: number }} area `stepPx` from one bar to the next
 * @returns {{ bars: PassBar[], topMs: number }} `topMs` is the duration at the top of the area
 */
export function passBars(passes, { widthPx, heightPx, stepPx }) {
  const room = Math.max(1, Math.floor(widthPx / stepPx));
  const shown = passes.slice(-room);
  const topMs = roundDurationMs(Math.max(10, ...shown.map(({ durationMs }) => durationMs)));
  const left = widthPx - shown.length * stepPx;
  const bars = shown.map((pass, index) => {
    const height = Math.max(2, (pass.durationMs / topMs) * heightPx);
    const box = { x: left + index * stepPx + 1, y: heightPx - height, width: stepPx - 2, height };
    return { pass, box, outcome: outcomeOf(pass) };
  });
  return { bars, topMs };
}

/**
 * The outcome of a pass, for its colour and its sign.
 * @param {PassNote} pass
 * @returns {PassBar['outcome']}
 */
export function outcomeOf({ result, summary }) {
  if (result === 'failed') return 'failed';
  if (result === 'abandoned' || summary === null) return 'abandoned';
  if (summary.failed > 0) return 'partly';
  return summary.changed > 0 ? 'changed' : 'quiet';
}

/**
 * The outcome of a pass, as a clause.
 * @param {PassNote} pass
 * @returns {string}
 */
export function passClause({ result, summary, failure }) {
  if (result === 'failed')
    return failure === null ? 'failed' : `failed: ${failure.message.replace(/\.$/, '')}`;
  if (summary === null || result === 'abandoned') return 'abandoned';
  const parts = [
    summary.changed === 0 ? 'nothing changed' : `${counted(summary.changed, 'target')} changed`,
    ...(summary.failed > 0 ? [failedOf(summary)] : []),
    ...(summary.held > 0 ? [`${summary.held} held`] : []),
  ];
  return parts.join(', ');
}

/** @param {NonNullable<PassNote['summary']>} summary @returns {string} */
function failedOf({ failed, tried }) {
  return failed > tried ? `${failed} failed` : `${failed} of ${counted(tried, 'pull')} failed`;
}

/**
 * The history of passes in one sentence.
 * @param {readonly PassNote[]} passes
 * @returns {string}
 */
export function passesSentence(passes) {
  if (passes.length === 0) return 'No pass has finished yet.';
  const failed = passes.filter(({ result }) => result === 'failed').length;
  const partly = passes.filter((pass) => outcomeOf(pass) === 'partly').length;
  const sorted = passes.map(({ durationMs }) => durationMs).sort((a, b) => a - b);
  const median = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  const parts = [
    failed === 0 ? 'none failed' : `${failed} failed`,
    ...(partly === 0 ? [] : [`${partly} with targets that failed`]),
  ];
  const longest = durationText(sorted.at(-1) ?? 0);
  return `${counted(passes.length, 'pass', 'passes')}, ${parts.join(', ')}. Median ${durationText(median)}, longest ${longest}.`;
}

/**
 * The spread of times since the last verification in one sentence.
 * @param {readonly LagBucket[]} buckets
 * @returns {string}
 */
export function lagSentence(buckets) {
  const total = buckets.reduce((sum, { count }) => sum + count, 0);
  if (total === 0) return 'There are no targets yet.';
  const parts = buckets.filter(({ count }) => count > 0).map(({ label, count }) => `${count} ${label}`);
  return `Time since last verified, of ${counted(total, 'target')}: ${parts.join(', ')}.`;
}
