import { runTask, type TaskName, type TaskRequest, type TaskResult } from '../../src/app/tasks/table.ts';
import { ownPlace } from '../../src/cli/change/own-place.ts';
import type { SettingsFor } from '../../src/config/schema.ts';
import { MirrorError } from '../../src/lib/errors/errors.ts';

/**
 * Does a task in this process, like a command without a daemon.
 * @param settings without a key, the settings of the service are missing
 */
export function runTaskHere<Name extends TaskName>(
  name: Name,
  settings: SettingsFor<'directory'>,
  wish: TaskRequest<Name>,
): Promise<TaskResult<Name>> {
  const ofService = (): SettingsFor<'service' | 'directory'> => {
    if (hasService(settings)) return settings;
    throw new MirrorError('settings.invalid', 'There is no service.');
  };
  const place = ownPlace({ ofDirectory: () => settings, ofService, ofMirror: ofService });
  return runTask(
    name,
    { ...place, signal: AbortSignal.timeout(250_000), emit: () => {}, tell: () => {} },
    wish,
  );
}

function hasService(settings: SettingsFor<'directory'>): settings is SettingsFor<'service' | 'directory'> {
  return settings.service.apiKey !== undefined && settings.service.baseUrl !== undefined;
}

/** Approves held deletions. @param targets as below `mirror/`; null for all */
export async function approveHere(
  settings: SettingsFor<'directory'>,
  targets: readonly string[] | null,
): Promise<readonly string[]> {
  const held = await runTaskHere('held', settings, {});
  const chosen = held.filter(({ target }) => targets?.includes(target ?? '') !== false);
  await runTaskHere('approve', settings, {
    approvals: chosen.map(({ approval }) => ({ ...approval, approvedBy: 'anna' })),
  });
  return chosen.flatMap(({ target }) => target ?? []);
}
