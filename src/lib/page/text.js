/** Text for people, as the pages and the command line write it. Everything here is pure. */

const SIZE_STEPS = /** @type {const} */ ([
  [1e12, 'TB'],
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
]);

/**
 * A size, rounded: `12.3 MB`.
 * @param {number} sizeBytes
 * @returns {string}
 */
export function sizeText(sizeBytes) {
  for (const [step, unit] of SIZE_STEPS) {
    if (sizeBytes >= step) return `${(sizeBytes / step).toFixed(sizeBytes >= 100 * step ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(sizeBytes)} B`;
}

/**
 * A duration, rounded: `1.4 s`, `3 min`, `2 h`, `5 days`.
 * @param {number} durationMs
 * @returns {string}
 */
export function durationText(durationMs) {
  const ms = Math.max(0, durationMs);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/**
 * Makes a sentence from a clause.
 * @param {string} text
 * @returns {string}
 */
export function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

/**
 * The characters that do not show as themselves and may move the cursor, hide text, or change its order: control characters (C0,
 * DEL and C1), separators of lines and paragraphs, lone surrogates, what changes the direction, and what is drawn as nothing (Unicode
 * Standard Annex 44, `Default_Ignorable_Code_Point`, and the marks of interlinear annotations). Joiners and variation selectors are
 * drawn as nothing, too, but change no more than the form of the character before them; Persian, the scripts of India and emoji
 * cannot be written without them.
 */
export const UNFIT_FOR_TERMINAL =
  /[[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u{FFF9}-\u{FFFB}]--[\u{200C}\u{200D}\p{Variation_Selector}]]/gv;

/** All characters except visible ASCII and spaces. Most texts have none, and this test takes a tenth of the time. */
const UNUSUAL = /[^ -~]/;

/**
 * Makes foreign text safe to show: characters that could hide or reorder text become visible. A safe text stays as it is.
 * @param {string} text
 * @returns {string}
 */
export function printable(text) {
  if (!UNUSUAL.test(text)) return text;
  return text.replaceAll(UNFIT_FOR_TERMINAL, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
  });
}
