import { type Command, Option } from 'commander';

import { EVENT_LEVELS, type MirrorEvent } from '../../app/events.ts';

/** The amount of output beside the result: only errors, notable events, or everything. */
export type Loudness = 'quiet' | 'normal' | 'verbose';

let asked: Loudness = 'normal';

/** The amount of output that the command line asked for. */
export function loudness(): Loudness {
  return asked;
}

/** Gives a command `--quiet` and `--verbose`. */
export function addLoudnessFlags(command: Command): Command {
  return command
    .addOption(new Option('-q, --quiet', 'print only errors and requested output').conflicts('verbose'))
    .addOption(new Option('-v, --verbose', 'print every step'));
}

/** Applies the flags of a command line, before its command runs. */
export function takeLoudness(command: Command): void {
  const { quiet, verbose }: { quiet?: true; verbose?: true } = command.opts();
  asked = quiet === true ? 'quiet' : verbose === true ? 'verbose' : 'normal';
}

/**
 * Whether a command shows an event. `--quiet` still shows the end of a pass with problems: the exit code must not be the only
 * trace.
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
