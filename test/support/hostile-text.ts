import * as fc from 'fast-check';

/**
 * Characters that foreign text must not bring to a terminal, listed here independently by number: control characters, lone surrogates,
 * line separators, changes of direction, and invisible characters.
 */
export const UNFIT =
  /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0001}-\u{e007f}]|\p{Cs}/u;

const CHARACTERS =
  '\u0000\b\t\n\r\u007f\u0085\u00ad\u061c\u200b\u200f\u2028\u2029\u202e\u2066\ufeff\ufff9\u{e0041}\udc00\ud800';

const HARMFUL = [
  ...Array.from(CHARACTERS),
  '\u001b[2J',
  '\u001b]0;title\u0007',
  '\u009b2J',
  '\u009d0;title\u009c',
];

const part = fc.oneof(
  fc.constantFrom(...HARMFUL),
  fc.string({ unit: 'binary', maxLength: 3 }),
  fc.string({ maxLength: 5 }),
);
/** Texts with hostile intent. */
export const hostileText: fc.Arbitrary<string> = fc
  .array(part, { minLength: 1, maxLength: 8 })
  .map((parts) => parts.join(''));
