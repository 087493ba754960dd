import { openStateOf, refuseMissing, statusPolicyOf } from '../../app/open-reader.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { agoText, counted, roughDuration, utcTime } from '../../lib/text/humanize.ts';
import type { TargetRecord } from '../../mirror/plan/record.ts';
import { type State, type StoredPass, unlessStateFails } from '../../mirror/state/state.ts';
import { knownDirectoryId } from '../../mirror/store/directory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { wayToTree } from '../../mirror/store/published-tree.ts';
import { createReplicaLibrary, type ReplicaTotals } from '../../server/replica/library.ts';
import { refuseMissingServeDirectory, refuseNoMirror } from '../../server/start/directory.ts';
import { log } from '../../server/start/log.ts';
import { serveUntilStopped } from '../../server/start/start.ts';
import { tellEvent } from '../frame/output.ts';

/**
 * Answers the reading part of the API from a published mirror until a signal ends it. Works with and without a daemon. Locks and
 * writes nothing.
 * @throws MirrorError `directory.unusable`, `http.unusable`
 */
export async function serveReplica(stop: AbortSignal, settings: SettingsFor<'directory'>): Promise<void> {
  const { directory, serve: own } = settings;
  const layout = layoutOf(directory);
  await refuseNoMirror(directory);
  await refuseMissing(directory);
  await refuseMissing(layout.manifests);
  const library = createReplicaLibrary(
    {
      directory: layout.root,
      wayToTree: (target) => wayToTree(layout, target),
      records: () => readState(settings, (state) => state.records(), new Map<string, TargetRecord>()),
    },
    ({ target, path, what }) =>
      log(`${path === '' ? target : `${target}/${path}`} was refused: ${what}; \`verify\` says more`, 'warn'),
  );
  // A mirror that cannot be listed is reported at the start, not only to clients.
  const totals = await library.totals();
  if (own.directory !== undefined) await refuseMissingServeDirectory(own.directory);
  await serveUntilStopped({
    library,
    settings: own,
    stop,
    mirrorDirectory: './second-mirror',
    onListening: () => tellStart(settings, totals),
  });
}

/** Names the served mirror and its age. */
async function tellStart(settings: SettingsFor<'directory'>, totals: ReplicaTotals): Promise<void> {
  const size = `${counted(totals.repositories, 'repository', 'repositories')}, ${counted(totals.targets, 'branch', 'branches')}`;
  log(`Serving the mirror ${settings.directory}, read-only: ${size}.`);
  const lastPass = await readState<StoredPass | null>(settings, (state) => state.lastPass(), null);
  log(describeAge(totals, lastPass, statusPolicyOf(settings).maxStalenessMs, Date.now()));
  for (const path of totals.unreadable)
    log(
      `The manifest of ${path} cannot be read or understood: the lists are refused (503) until it can; other contents are given.`,
      'error',
    );
}

/** Reads the state cache of the daemon. Opens it each time, as its file may be replaced, appear or vanish. */
function readState<T>(
  settings: SettingsFor<'directory'>,
  read: (state: State) => Promise<T>,
  fallback: T,
): Promise<T> {
  const call = async (): Promise<T> => {
    const layout = layoutOf(settings.directory);
    const id = (await knownDirectoryId(layout)) ?? '';
    const state = await openStateOf(settings, { layout, id }, true, tellEvent);
    try {
      return await read(state);
    } finally {
      await state.close();
    }
  };
  return unlessStateFails(call(), fallback);
}

/** Describes the age of the mirror. */
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
  return `${oldest} The daemon's last pass: ${agoText(lastPass.startedAtMs, nowMs)}${end}.`;
}
