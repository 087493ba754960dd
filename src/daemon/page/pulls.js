/** The pulls under way, in words. */

import { durationText, sizeText } from './format.js';

/** @import { Report } from './targets.js' */

/**
 * What a pull is at: `downloading 512 MB of 2.1 GB, 41 MB/s, 38 s left`.
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
