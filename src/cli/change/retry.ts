import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say } from '../../lib/text/terminal-text.ts';
import type { Outcome } from '../frame/output.ts';
import { pollNow, withStatuses } from './poll.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { targetNamed } from '../../app/target-names.ts';

/** `retry` */
export async function runRetry(command: Command): Promise<Outcome> {
  const { all }: { all?: true } = command.opts();
  if (command.args.length === 0 && all !== true) {
    throw new MirrorError('usage.invalid', 'retry needs a target, or --all.', {
      hint: `\`${ownCommand('status')}\` lists what waits.`,
    });
  }
  const { settings } = settingsOf(command, ['directory']);
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  const targets = await waitingTargets(settings, all === true ? null : command.args);
  return targets.length === 0
    ? { data: { passes: [] }, text: () => say`Nothing waits to be tried again.` }
    : pollNow(command, targets, false);
}

/**
 * The targets that wait to be tried again (back-off, quarantine, stall).
 * @param asked their names; null for all that wait
 * @throws MirrorError `target.unknown` where nothing waits there, `directory.unusable`, `disk.*`, `state.unavailable`
 */
export function waitingTargets(
  settings: SettingsFor<'directory'>,
  asked: readonly string[] | null,
): Promise<readonly string[]> {
  return withStatuses(settings, (statuses, mirror) => {
    const waiting = statuses.filter(({ failure }) => failure !== null).map(({ target }) => target);
    const known = statuses.map(({ target }) => target);
    return asked?.map((name) => waitingTarget(targetNamed(name, mirror, known), waiting)) ?? waiting;
  });
}

function waitingTarget(path: string, waiting: readonly string[]): string {
  if (waiting.includes(path)) return path;
  const close = likely(path, waiting);
  throw new MirrorError('target.unknown', `Nothing waits to be tried again at ${JSON.stringify(path)}.`, {
    hint:
      close === undefined
        ? `\`${ownCommand('status')}\` says how every target is; \`${ownCommand('poll')}\` makes a pass.`
        : `The nearest that waits is ${close}. \`${ownCommand('status')}\` lists all of them.`,
  });
}
