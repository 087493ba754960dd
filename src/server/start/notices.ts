import type { FetchEvent } from '../external/fetches.ts';
import type { ReadingEvent } from '../git/listing.ts';
import type { OpeningEvent } from '../git/repositories.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { oneLine, roughDuration, withHint } from '../../lib/text/humanize.ts';
import { log } from './log.ts';

function why(error: unknown): string {
  return oneLine(toMirrorError(error).message);
}

/** Describes a fault in the directory of a service that starts. */
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

/** Describes how the reading of a repository's workbooks changed. */
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

function reasonOf(error: unknown): string {
  const { message, hint = null } = toMirrorError(error);
  return withHint({ message, hint });
}

/** The outcome of a fetch, in a line. */
export function describeFetch(event: FetchEvent): string {
  const name = event.repository.full_name;
  switch (event.kind) {
    case 'cloned':
      return `${name}: cloned`;
    case 'fetched':
      return `${name}: fetched what changed`;
    case 'recovered':
      return `${name}: can be fetched again`;
    case 'failing': {
      const next = roughDuration(event.nextAttemptMs);
      const what = event.repository.cloned
        ? 'cannot be fetched; what was fetched before stays'
        : 'cannot be cloned, and has no contents until it is';
      return `${name}: ${what}. It is tried again in ${next}, then later each time: ${reasonOf(event.error)}`;
    }
    case 'damaged':
      return `${name}: what is here of it is damaged; it is cloned again: ${reasonOf(event.error)}`;
  }
}

/** Reports the outcome of a fetch to the operator of the service. */
export function tellFetch(event: FetchEvent): void {
  const isGood = event.kind === 'cloned' || event.kind === 'fetched' || event.kind === 'recovered';
  log(describeFetch(event), isGood ? 'info' : 'warn');
}
