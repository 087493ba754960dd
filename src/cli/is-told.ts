import { EVENT_LEVELS, type MirrorEvent } from '../mirror/pass/events.ts';

/** How much a command tells beside what it was asked for: only errors, what is worth knowing, or everything. */
export type Loudness = 'quiet' | 'normal' | 'verbose';

/**
 * Whether a command tells of an event. A quiet one also tells how a pass ended that was not all well: its exit code must not
 * be the only trace.
 */
export function isTold(event: MirrorEvent, loudness: Loudness): boolean {
  switch (loudness) {
    case 'quiet':
      if (event.name === 'pass.finished') return event.failed > 0 || event.held > 0;
      return EVENT_LEVELS[event.name] === 'error';
    case 'normal':
      return EVENT_LEVELS[event.name] !== 'debug';
    case 'verbose':
      return true;
  }
}
