import { roughSize, utcTime } from '../../lib/text/humanize.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import type { FileDifference, FileState } from '../../app/tasks/file-differences.ts';
import { table, textOf } from '../frame/output.ts';

/** The columns of differing files, for a person. */
export const DIFFERENCE_HEADINGS = ['CHANGE', 'FILE', 'SIZE', 'VERSION', 'MADE', 'AUTHOR', 'MESSAGE'];

/** Maximum length of a message; `--json` has all of it. */
const MESSAGE_SHOWN = 72;

/** Describes differing files, a line each, with the former place of a moved file below it. @param most the number of files shown */
export function describeDifferences(
  differences: readonly FileDifference[],
  total = differences.length,
): TerminalText {
  const listed = table(
    DIFFERENCE_HEADINGS,
    differences.map(differenceCells),
    differences.map(({ movedFrom }) => (movedFrom === null ? '' : `moved from ${movedFrom}`)),
  );
  const more = total - differences.length;
  return textOf(listed, more > 0 && `and ${more} more`);
}

/** The cells of a differing file. */
export function differenceCells({ change, path, before, after }: FileDifference): string[] {
  const workbook = (after ?? before)?.workbook ?? null;
  const madeMs = Date.parse(workbook?.createdAt ?? '');
  const author = workbook?.author ?? '';
  return [
    change,
    path,
    fromTo(sizesOf(before, after)),
    fromTo(versionsOf(before, after)),
    Number.isNaN(madeMs) ? '' : utcTime(madeMs),
    // The author of its last version did not necessarily remove it.
    change === 'removed' && author !== '' ? `last by ${author}` : author,
    firstLine(workbook?.message ?? ''),
  ];
}

/** The old and the new value, or only one if the other is missing or equal. */
function fromTo([from = '', to = '']: readonly string[]): string {
  return from === to || from === '' || to === '' ? to || from : `${from} -> ${to}`;
}

function sizesOf(before: FileState | null, after: FileState | null): readonly string[] {
  const sizes = (write: (bytes: number) => string): string[] =>
    [before, after].map((state) => (state === null ? '' : write(state.sizeBytes)));
  const rough = sizes(roughSize);
  // A small change of a large file shows only in its bytes.
  const isHidden = rough[0] === rough[1] && before?.sizeBytes !== after?.sizeBytes;
  return isHidden ? sizes((bytes) => `${bytes} B`) : rough;
}

/** The beginning of a digest or UUID, which identifies it. */
const LONG_ID = /^[0-9a-f]{8}[0-9a-f-]{4,}$/i;

const ID_SHOWN = 8;

function versionsOf(before: FileState | null, after: FileState | null): readonly string[] {
  const was = before?.workbook?.versionId ?? '';
  const is = after?.workbook?.versionId ?? '';
  const short = (id: string): string => (LONG_ID.test(id) ? id.slice(0, ID_SHOWN) : id);
  return was !== is && short(was) === short(is) ? [was, is] : [short(was), short(is)];
}

/** The first line of a version's message, for a person. */
export function firstLine(message: string): string {
  const [line = ''] = message.trim().split(/[\r\n]/, 1);
  if (line.length <= MESSAGE_SHOWN) return line.trimEnd();
  // Half of a surrogate pair is not a character.
  return `${line.slice(0, MESSAGE_SHOWN).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
