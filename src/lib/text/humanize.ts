import { durationText } from '../page/text.js';

export {
  durationText as roughDuration,
  printable,
  sizeText as roughSize,
  UNFIT_FOR_TERMINAL,
} from '../page/text.js';

/** A number with its noun: `1 file`, `3 files`; `plural` for nouns that take more than an s. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}

/** A time for a person and a machine: UTC, to the second. */
export function utcTime(timeMs: number): string {
  if (Number.isNaN(new Date(timeMs).getTime())) return 'an unknown time';
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`;
}

/** How long ago a time was, for a person: `3 min ago`. A clock that was ahead leaves times in the future. */
export function agoText(timeMs: number, nowMs: number): string {
  return timeMs > nowMs ? 'in the future' : `${durationText(nowMs - timeMs)} ago`;
}

/** Joins lines of text into one. A search that began at every space would take time by the square of the space. */
export function oneLine(text: string): string {
  return text.replaceAll(/(?<!\s)\s*\n\s*/g, ' ');
}

/** The most characters of a foreign message that are processed. */
const LONGEST_MESSAGE = 2000;

/** The beginning of a foreign message: the rest is not processed, above all not searched. */
export function beginningOf(message: string): string {
  return message.length <= LONGEST_MESSAGE ? message : `${message.slice(0, LONGEST_MESSAGE)}…`;
}

/** A message with its hint, as sentences in one line. */
export function withHint({ message, hint }: { message: string; hint: string | null }): string {
  const text = oneLine(message);
  if (hint === null) return text;
  return `${text}${/[.!?:]$/.test(text) ? '' : '.'} ${oneLine(hint)}`;
}

/** The parts of a sentence or report, without those that are false or null. */
export function partsOf(...parts: readonly (string | false | null | readonly string[])[]): string[] {
  return parts.flatMap((part) => (part === false || part === null ? [] : part));
}
