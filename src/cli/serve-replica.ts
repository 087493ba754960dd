import { formatListen } from '../config/addresses.ts';
import type { SettingsFor } from '../config/schema.ts';
import { counted, roughDuration, utcTime } from '../lib/text/humanize.ts';
import type { TargetRecord } from '../mirror/plan/record.ts';
import { say } from '../lib/text/terminal-text.ts';
import { createReplicaLibrary, type ReplicaTotals, type ReplicaTrouble } from '../server/replica/library.ts';
import type { MirrorPort } from '../server/replica/manifests.ts';
import { createService } from '../server/http/service.ts';
import type { State, StoredPass } from '../mirror/state/state.ts';
import { knownDirectoryId } from '../mirror/store/directory.ts';
import { type DirectoryLayout, layoutOf } from '../mirror/store/layout.ts';
import { wayToTree } from '../mirror/store/published-tree.ts';
import { parseManifest } from '../mirror/store/manifest-text.ts';
import { tolerateStateFailure } from '../mirror/pass/state-failures.ts';
import { openStateOf, refuseMissing, statusPolicyOf } from '../daemon/start/open-reader.ts';
import { printData, tellEvent } from './output.ts';
import { refuseMissingServeDirectory, refuseNoMirror } from '../server/start/directory.ts';
import { openServedKeys } from '../server/start/keys.ts';
import { log } from '../server/start/log.ts';
import { createTroubleTeller, type Stop, tellKeys, tellRequest } from '../server/start/start.ts';

type ReplicaSettings = SettingsFor<'directory'>;

/**
 * Answers the reading part of the API from the published mirror until it is told to stop. Works beside the daemon and without it; locks
 * and writes nothing.
 * @throws MirrorError `directory.unusable`, `http.unusable`
 */
export async function serveReplica(stop: Stop, settings: ReplicaSettings): Promise<void> {
  const { directory, serve: own } = settings;
  await refuseNoMirror(directory);
  await refuseMissing(directory);
  const layout = layoutOf(directory);
  await refuseMissing(layout.manifests);
  const library = createReplicaLibrary(mirrorPort(settings, layout), tellTrouble);
  // A mirror that cannot be listed is reported at the start, and not only to clients.
  const totals = await library.totals();
  if (own.directory !== undefined) await refuseMissingServeDirectory(own.directory);
  const { keys, temporary, secrets } = await openServedKeys(own, own.directory ?? null);
  const service = createService({
    library,
    keys,
    pageSize: own.pageSize,
    onRequest: (info) => tellRequest(info, secrets),
    onTrouble: createTroubleTeller(),
  });
  try {
    if (stop.isAsked()) return;
    const { baseUrl, port } = await service.listen(own.listen);
    log(`Listening on ${formatListen({ ...own.listen, port })}.`);
    log(describeStart(directory, totals));
    const lastPass = await readState<StoredPass | null>(settings, layout, (state) => state.lastPass(), null);
    log(describeAge(totals, lastPass, statusPolicyOf(settings).maxStalenessMs, Date.now()));
    for (const path of totals.unreadable) log(describeUnreadable(path), 'error');
    await tellKeys({ baseUrl, own, keys, temporary, mirrorDirectory: './second-mirror' });
    printData(say`${baseUrl}`);
    await stop.asked;
  } finally {
    await service.close();
  }
}

function mirrorPort(settings: ReplicaSettings, layout: DirectoryLayout): MirrorPort {
  return {
    directory: layout.root,
    mirror: layout.mirror,
    wayToTree: (target) => wayToTree(layout, target),
    manifests: layout.manifests,
    parseManifest,
    records: () => readState(settings, layout, (state) => state.records(), new Map<string, TargetRecord>()),
  };
}

/** Reads what the daemon remembers, anew each time: its file may be another one by then, or come and go. */
function readState<T>(
  settings: ReplicaSettings,
  layout: DirectoryLayout,
  read: (state: State) => Promise<T>,
  fallback: T,
): Promise<T> {
  const call = async (): Promise<T> => {
    const id = (await knownDirectoryId(layout)) ?? '';
    const state = await openStateOf(settings, { layout, id }, true, tellEvent);
    try {
      return await read(state);
    } finally {
      await state.close();
    }
  };
  return tolerateStateFailure(tellEvent, call, fallback);
}

/** The line that says which mirror is served. */
function describeStart(directory: string, { repositories, targets }: ReplicaTotals): string {
  const what = `${counted(repositories, 'repository', 'repositories')}, ${counted(targets, 'branch', 'branches')}`;
  return `Serving the mirror ${directory}, read-only: ${what}.`;
}

/** The line that says how old the mirror may be. */
export function describeAge(
  { oldestVerifiedAtMs }: Pick<ReplicaTotals, 'oldestVerifiedAtMs'>,
  lastPass: Pick<StoredPass, 'startedAtMs' | 'failure'> | null,
  maxStalenessMs: number,
  nowMs: number,
): string {
  if (oldestVerifiedAtMs === null) return 'Nothing is mirrored yet.';
  const ageMs = nowMs - oldestVerifiedAtMs;
  const late = ageMs > maxStalenessMs ? `, longer than maxStaleness (${roughDuration(maxStalenessMs)})` : '';
  const oldest = `Verified longest ago: ${utcTime(oldestVerifiedAtMs)}, ${roughDuration(ageMs)} ago${late}.`;
  if (lastPass === null) return `${oldest} No pass of the daemon is on record.`;
  const end = lastPass.failure === null ? '' : `, failed: ${lastPass.failure.code}`;
  return `${oldest} The daemon's last pass: ${roughDuration(nowMs - lastPass.startedAtMs)} ago${end}.`;
}

function describeUnreadable(path: string): string {
  return `The manifest of ${path} cannot be read or understood: the lists are refused (503) until it can; other contents are given.`;
}

function tellTrouble({ target, path, what }: ReplicaTrouble): void {
  const where = path === '' ? target : `${target}/${path}`;
  log(`${where} was refused: ${what}; \`verify\` says more`, 'warn');
}
