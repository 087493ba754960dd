import type { SettingsFor } from '../config/schema.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { likely } from '../lib/text/nearest.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { statusOfTargets } from '../mirror/plan/target-status.ts';
import { readLockHolder } from '../lib/disk/lock-holder.ts';
import { requestRetry } from '../mirror/store/retries.ts';
import { tellEvent } from './output.ts';
import { becomeOwnerOf } from '../lib/process/owner.ts';
import { openReader, refuseMissing, statusPolicyOf } from '../daemon/start/open-reader.ts';
import { namedPath } from './target-name.ts';

/** What `retry` asked for. */
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
  const { store, state } = await openReader(settings, tellEvent);
  try {
    const records = await state.records();
    const drift = await state.drift();
    const policy = statusPolicyOf(settings);
    const statuses = statusOfTargets(await store.published(), records, drift, policy, Date.now());
    const waiting = statuses.filter(({ failure }) => failure !== null).map(({ target }) => target);
    const targets =
      asked === null
        ? waiting
        : asked.map((name) => waitingTarget(namedPath(name, store.layout.mirror), waiting));
    for (const target of targets) await requestRetry(store.layout, target);
    const holder = await readLockHolder(store.layout.lockFile);
    return { targets, isAttended: holder?.isAlive === true };
  } finally {
    await state.close();
  }
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
