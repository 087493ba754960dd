import { type Command, Option } from 'commander';

import { EVENT_LEVELS, type MirrorEvent } from '../../app/events.ts';

/** How much a command tells beside what it was asked for: only errors, what is worth knowing, or everything. */
export type Loudness = 'quiet' | 'normal' | 'verbose';

let asked: Loudness = 'normal';

/** How much this process tells, as its command line asked. */
export function loudness(): Loudness {
  return asked;
}

/** Gives a command `--quiet` and `--verbose`. */
export function addLoudnessFlags(command: Command): Command {
  return command
    .addOption(new Option('-q, --quiet', 'print only errors and requested output').conflicts('verbose'))
    .addOption(new Option('-v, --verbose', 'print every step'));
}

/** Takes what a command line asks for, before its command runs. */
export function takeLoudness(command: Command): void {
  const { quiet, verbose }: { quiet?: true; verbose?: true } = command.opts();
  asked = quiet === true ? 'quiet' : verbose === true ? 'verbose' : 'normal';
}

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
