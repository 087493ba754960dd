import { type Command, Option } from 'commander';

import type { Loudness } from './is-told.ts';

let asked: Loudness = 'normal';

/** How much this process tells, as its command line asked. */
export function loudness(): Loudness {
  return asked;
}

/** Gives a command `--quiet` and `--verbose`. */
export function addLoudnessFlags(command: Command): Command {
  return command
    .addOption(
      new Option('-q, --quiet', 'tell only errors, beside the data that is asked for').conflicts('verbose'),
    )
    .addOption(new Option('-v, --verbose', 'tell everything, step by step'));
}

/** Takes what a command line asks for, before its command runs. */
export function takeLoudness(command: Command): void {
  const { quiet, verbose }: { quiet?: true; verbose?: true } = command.opts();
  asked = quiet === true ? 'quiet' : verbose === true ? 'verbose' : 'normal';
}
