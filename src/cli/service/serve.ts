import type { Command } from 'commander';

import { refuseMissing, statusPolicyOf, withReader } from '../../app/open-reader.ts';
import type { Settings, SettingsFor } from '../../config/schema.ts';
import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { loadPage } from '../../lib/http/page-files.ts';
import { agoText, counted, roughDuration, utcTime } from '../../lib/text/humanize.ts';
import type { TargetRecord } from '../../mirror/plan/record.ts';
import type { StoredPass } from '../../mirror/state/state.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { createSamples } from '../../server/demo/samples.ts';
import { createGitLibrary } from '../../server/git/library.ts';
import { openRegistry } from '../../server/git/repositories.ts';
import { createReplicaLibrary, type ReplicaLibrary } from '../../server/replica/library.ts';
import {
  lockServiceDirectory,
  prepareServeDirectory,
  refuseMissingServeDirectory,
  refuseNoMirror,
  requiredServeDirectory,
} from '../../server/start/directory.ts';
import { log, openServeLog } from '../../server/start/log.ts';
import { serveUntilStopped, withStopSignal } from '../../server/start/start.ts';
import { tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** Maximum size of the objects of a cloned repository: 20 GiB. */
const MAX_REPOSITORY_BYTES = 20 * 1024 ** 3;

/** Longest wait at the start for the checks of existing workbooks, in milliseconds: clients then see their results. */
const CHECK_LIMIT_MS = 3000;

/** `serve`: runs the embedded service, or a replica, until a signal ends it. @throws MirrorError `settings.invalid`, `directory.*`, `http.unusable` */
export async function runServe(command: Command): Promise<void> {
  const { samples, fromMirror }: { samples?: true; fromMirror?: true } = command.opts();
  const replica = fromMirror === true ? settingsOf(command, ['directory']).settings : null;
  const settings = replica ?? settingsOf(command, []).settings;
  openServeLog(settings.log);
  await withStopSignal((stop) =>
    replica === null
      ? serveRepositories(stop, settings.serve, samples === true)
      : serveReplica(stop, replica),
  );
}

async function serveRepositories(
  stop: AbortSignal,
  settings: Settings['serve'],
  samples: boolean,
): Promise<void> {
  const directory = requiredServeDirectory(settings);
  await prepareServeDirectory(directory);
  // New files of workbooks, keys and passwords are for this user only.
  process.umask(0o077);
  const page = await loadPage('server/uploads/page', 'the form for uploads');
  const lock = await lockServiceDirectory(directory);
  const opening = {
    sources: settings.sources,
    maxRepositoryBytes: MAX_REPOSITORY_BYTES,
    tell: log,
  };
  const { registry, areNew } = samples
    ? await createSamples(directory, opening)
    : { registry: await openRegistry(directory, opening), areNew: null };
  if (areNew === false) log(`No samples were added: there are repositories in ${directory} already.`, 'warn');
  const library = createGitLibrary(registry, { hasChecks: true, tell: log });
  registry.fetches.startComparing(settings.fetchInterval);
  const onListening = async (baseUrl: string): Promise<void> => {
    // Workbooks that cannot be read are reported when they are requested.
    await waitAtMost(
      library.checkAll().catch(() => undefined),
      CHECK_LIMIT_MS,
    );
    const count = (await library.repositories()).length;
    log(`Serving ${counted(count, 'repository', 'repositories')} of ${directory}.`);
    log(`The form for uploads: ${new URL('/', baseUrl).href}`);
  };
  const { changes } = library;
  try {
    await serveUntilStopped({
      library,
      changes,
      page,
      settings,
      stop,
      onListening,
    });
  } finally {
    await library.close();
    await registry.close();
    await lock.release();
  }
}

/**
 * Answers the reading part of the API from a published mirror until a signal ends it. Works with and without a daemon. Locks and
 * writes nothing.
 * @throws MirrorError `directory.unusable`, `http.unusable`
 */
async function serveReplica(stop: AbortSignal, settings: SettingsFor<'directory'>): Promise<void> {
  const { directory, serve: own } = settings;
  const layout = layoutOf(directory);
  await refuseNoMirror(directory);
  await refuseMissing(directory);
  await refuseMissing(layout.manifests);
  const library = createReplicaLibrary(
    directory,
    // Opened each time, as the daemon's state cache may be replaced, appear or vanish.
    () =>
      withReader(settings, tellEvent, ({ records }) => Promise.resolve(records)).catch(
        () => new Map<string, TargetRecord>(),
      ),
    (target, path, what) =>
      log(`${path === '' ? target : `${target}/${path}`} was refused: ${what}; \`verify\` says more`, 'warn'),
  );
  // A mirror that cannot be listed is reported at the start, not only to clients.
  const totals = await library.totals();
  if (own.directory !== undefined) await refuseMissingServeDirectory(own.directory);
  await serveUntilStopped({
    library,
    settings: own,
    stop,
    onListening: () => tellStart(settings, totals),
  });
}

type ReplicaTotals = Awaited<ReturnType<ReplicaLibrary['totals']>>;

/** Names the served mirror and its age. */
async function tellStart(settings: SettingsFor<'directory'>, totals: ReplicaTotals): Promise<void> {
  const size = `${counted(totals.repositories, 'repository', 'repositories')}, ${counted(totals.targets, 'branch', 'branches')}`;
  log(`Serving the mirror ${settings.directory}, read-only: ${size}.`);
  const lastPass = await withReader(settings, tellEvent, ({ state }) => state.lastPass()).catch(() => null);
  log(describeAge(totals, lastPass, statusPolicyOf(settings).maxStalenessMs, Date.now()));
  for (const path of totals.unreadable)
    log(
      `The manifest of ${path} cannot be read: lists answer 503 until it is repaired; other contents are served.`,
      'error',
    );
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
  const oldest = `Oldest data: verified ${utcTime(oldestVerifiedAtMs)}, ${roughDuration(ageMs)} ago${late}.`;
  if (lastPass === null) return `${oldest} No pass of the daemon is on record.`;
  const end = lastPass.failure === null ? '' : `, failed: ${lastPass.failure.code}`;
  return `${oldest} The daemon's last pass: ${agoText(lastPass.startedAtMs, nowMs)}${end}.`;
}
