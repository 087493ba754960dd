const SIZE_STEPS: readonly (readonly [number, string])[] = [
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
];

/** A size for a person, rounded: `12.3 MB`. */
export function roughSize(sizeBytes: number): string {
  for (const [step, unit] of SIZE_STEPS) {
    if (sizeBytes >= step) return `${(sizeBytes / step).toFixed(sizeBytes >= 100 * step ? 0 : 1)} ${unit}`;
  }
  return `${sizeBytes} B`;
}

/** A duration for a person, rounded: `1.4 s`, `3 min`, `2 h`, `5 days`. */
export function roughDuration(durationMs: number): string {
  const ms = Math.max(0, durationMs);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/** A number with its noun: `1 file`, `3 files`; `plural` for nouns that take more than an s. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}

/** A time for a person and a machine: UTC, to the second. */
export function utcTime(timeMs: number): string {
  if (Number.isNaN(new Date(timeMs).getTime())) return 'an unknown time';
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`;
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

/** Makes text of anybody's fit to be printed on a terminal: what is unfit becomes visible. A text that is fit stays as it is. */
export function printable(text: string): string {
  return text.replaceAll(UNFIT_FOR_TERMINAL, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
  });
}

/** Text of several lines in one. */
export function oneLine(text: string): string {
  const lines = text.split('\n');
  const last = lines.length - 1;
  // A regular expression for the space around a line break takes time by the square of the space.
  return lines
    .map((line, index) => {
      const start = index === 0 ? line : line.trimStart();
      return index === last ? start : start.trimEnd();
    })
    .filter((line, index) => line !== '' || index === 0 || index === last)
    .join(' ');
}

/** The most characters of somebody else's message that are looked at. */
const LONGEST_MESSAGE = 2000;

/** The beginning of a message of somebody else's: nothing is to be done with more of it, above all no search. */
export function beginningOf(message: string): string {
  return message.length <= LONGEST_MESSAGE ? message : `${message.slice(0, LONGEST_MESSAGE)}…`;
}

/** A message with its hint, as sentences in one line. */
export function withHint({ message, hint }: { message: string; hint: string | null }): string {
  const text = oneLine(message);
  if (hint === null) return text;
  return `${text}${/[.!?:]$/.test(text) ? '' : '.'} ${oneLine(hint)}`;
}
