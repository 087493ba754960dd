import type { FetchEvent } from '../git/fetches.ts';
import { toMirrorError } from '../model/errors.ts';
import { printable, roughDuration, withHint } from '../model/humanize.ts';
import { loudness } from './loudness.ts';
import { tell } from './output.ts';

/** Says what became of a fetch, in a line; what a server said is made harmless. */
export function describeFetch(event: FetchEvent): string {
  const name = printable(event.repository.full_name);
  switch (event.kind) {
    case 'cloned':
      return `${name}: cloned`;
    case 'fetched':
      return `${name}: fetched what changed`;
    case 'recovered':
      return `${name}: can be fetched again`;
    case 'failing': {
      const { message, hint = null } = toMirrorError(event.error);
      const next = roughDuration(event.nextAttemptMs);
      const what = `cannot be fetched; what was fetched before stays, and it is tried again in ${next}, then later each time`;
      return `${name}: ${what}: ${printable(withHint({ message, hint }))}`;
    }
  }
}

/** Tells a person of the service what became of a fetch. */
export function tellFetch(event: FetchEvent): void {
  const isFailure = event.kind === 'failing';
  if (loudness() === 'quiet' && !isFailure) return;
  tell(`${new Date().toISOString()} ${describeFetch(event)}`, isFailure ? 'warn' : 'info');
}
