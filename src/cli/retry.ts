import type { Command } from 'commander';

import type { SettingsFor } from '../config/schema.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { counted } from '../lib/text/humanize.ts';
import { likely } from '../lib/text/nearest.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { statusOfTargets } from '../app/target-status.ts';
import { readLockHolder } from '../lib/disk/lock.ts';
import { requestRetry } from '../mirror/store/requests.ts';
import { type Outcome, printOutcome, tell } from './output.ts';
import { settingsOf } from './settings-flags.ts';
import { progressOf, sync } from './sync.ts';
import { say } from '../lib/text/terminal-text.ts';
import { becomeOwnerOf } from '../lib/process/owner.ts';
import { refuseMissing, statusPolicyOf } from '../app/open-reader.ts';
import { targetNamed } from './target-names.ts';
import { withReader } from './targets.ts';

/** `retry` */
export async function runRetry(command: Command): Promise<Outcome> {
  const { all }: { all?: true } = command.opts();
  if (command.args.length === 0 && all !== true) {
    throw new MirrorError('usage.invalid', 'retry needs a target, or --all.', {
      hint: `\`${ownCommand('status')}\` lists what waits.`,
    });
  }
  const { settings } = settingsOf(command, ['directory']);
  const request = await retry(settings, all === true ? null : command.args);
  const { targets, isAttended } = request;
  if (targets.length === 0) return { data: request, text: () => say`Nothing waits to be tried again.` };
  printOutcome(command, { data: request });
  if (isAttended) {
    const count = counted(targets.length, 'target');
    tell(say`The process that works there tries ${count} within seconds: \`status\` says how it went.`);
    return {};
  }
  const forPass = settingsOf(command, ['service', 'directory']).settings;
  return { exitCode: (await sync(forPass, progressOf(forPass), { trigger: 'retry' })).exitCode };
}

/** The retries that were asked for. */
export interface RetryRequest {
  readonly targets: readonly string[];
  /** Whether a process works in the directory that will see to it. */
  readonly isAttended: boolean;
}

/**
 * Asks for targets that wait (back-off, quarantine, stall) to be tried at once. Works beside a running daemon. Root goes on as the
 * owner of the directory.
 * @param asked targets as below `mirror/`; null for all that wait
 * @throws MirrorError `target.unknown` where nothing waits there, `directory.unusable`, `disk.*`, `state.unavailable`
 */
export async function retry(
  settings: SettingsFor<'directory'>,
  asked: readonly string[] | null,
): Promise<RetryRequest> {
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  return withReader(settings, async ({ store, state }) => {
    const records = await state.records();
    const policy = statusPolicyOf(settings);
    const { published } = await store.inventory.read();
    const statuses = statusOfTargets(published, records, policy, Date.now());
    const waiting = statuses.filter(({ failure }) => failure !== null).map(({ target }) => target);
    const { mirror, lockFile } = store.layout;
    const known = statuses.map(({ target }) => target);
    const targets = asked?.map((name) => waitingTarget(targetNamed(name, mirror, known), waiting)) ?? waiting;
    for (const target of targets) await requestRetry(store.layout, target);
    const holder = await readLockHolder(lockFile);
    return { targets, isAttended: holder?.isAlive === true };
  });
}

function waitingTarget(path: string, waiting: readonly string[]): string {
  if (waiting.includes(path)) return path;
  const close = likely(path, waiting);
  throw new MirrorError('target.unknown', `Nothing waits to be tried again at ${JSON.stringify(path)}.`, {
    hint:
      close === undefined
        ? `\`${ownCommand('status')}\` says how every target stands; \`${ownCommand('sync')}\`, or SIGHUP to the daemon, makes a pass.`
        : `The nearest that waits is ${close}. \`${ownCommand('status')}\` lists all of them.`,
  });
}
