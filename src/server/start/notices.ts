import type { ReadingEvent } from '../git/listing.ts';
import type { OpeningEvent } from '../git/opening.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { oneLine, roughDuration, withHint } from '../../lib/text/humanize.ts';
import type { FetchEvent } from '../external/fetches.ts';
import { RemoteError } from '../external/errors.ts';
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

/** So many references are named in a line, and so much of each. */
const NAMES_SHOWN = 5;
const NAME_LIMIT_CHARACTERS = 80;

function shortened(text: string): string {
  return text.length > NAME_LIMIT_CHARACTERS ? `${text.slice(0, NAME_LIMIT_CHARACTERS)}…` : text;
}

/** Says why, to the operator: also what clients are not told. */
function reasonOf(error: unknown): string {
  const { message, hint = null } = toMirrorError(error);
  const inside = error instanceof RemoteError && error.inside !== null ? ` (${error.inside})` : '';
  return withHint({ message: message + inside, hint });
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
    case 'unconnected':
      return `${name}: cannot be connected: ${reasonOf(event.error)}`;
    case 'damaged':
      return `${name}: what is here of it is damaged; it is cloned again: ${reasonOf(event.error)}`;
    case 'left-out': {
      const more = event.names.length - NAMES_SHOWN;
      const names = event.names.slice(0, NAMES_SHOWN).map(shortened);
      const rest = more > 0 ? ` and ${more} more` : '';
      return `${name}: left out what cannot be kept on this disk, as names that are too long: ${names.join(', ')}${rest}`;
    }
  }
}

/** Reports the outcome of a fetch to the operator of the service. */
export function tellFetch(event: FetchEvent): void {
  const isGood = event.kind === 'cloned' || event.kind === 'fetched' || event.kind === 'recovered';
  log(describeFetch(event), isGood ? 'info' : 'warn');
}
