import type { ReadingEvent } from '../git/listing.ts';
import type { OpeningEvent } from '../git/opening.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { oneLine } from '../../lib/text/humanize.ts';
import { log } from './log.ts';

function why(error: unknown): string {
  return oneLine(toMirrorError(error).message);
}

/** What is wrong in the directory of a service that starts, as a sentence. */
export function describeOpening(event: OpeningEvent): string {
  if (event.kind === 'unknown')
    return `${event.path} belongs to no repository in the list: it is kept, and not served.`;
  const { full_name: name, source, id } = event.repository;
  const remedy =
    source === null
      ? `Put repositories/${id}.git right, or restore it from the backup, and start this again.`
      : 'It is cloned again if it is gone.';
  return `${name} cannot be used: ${why(event.error)}. ${remedy}`;
}

/** What became of the reading of a repository's workbooks, as a sentence. */
export function describeReading(event: ReadingEvent): string {
  const name = event.repository.full_name;
  if (event.kind === 'readable') return `${name}: its workbooks can be read again.`;
  return (
    `${name}: its workbooks cannot be read: ${why(event.error)}. They are listed as they were, as being processed; ` +
    'where that is not known any more, no list is given.'
  );
}

/** Tells of what is wrong in the directory. */
export function tellOpening(event: OpeningEvent): void {
  log(describeOpening(event), event.kind === 'unknown' ? 'warn' : 'error');
}

/** Tells of the reading of a repository. */
export function tellReading(event: ReadingEvent): void {
  log(describeReading(event), event.kind === 'unreadable' ? 'error' : 'info');
}
