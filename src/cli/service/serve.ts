import type { Command } from 'commander';

import type { Settings } from '../../config/schema.ts';
import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { loadPage } from '../../lib/http/page-files.ts';
import { counted } from '../../lib/text/humanize.ts';
import { createSamples } from '../../server/demo/samples.ts';
import { createFetching } from '../../server/external/fetches.ts';
import { createGitLibrary } from '../../server/git/library.ts';
import { openRegistry } from '../../server/git/repositories.ts';
import { prepareServeDirectory, requiredServeDirectory } from '../../server/start/directory.ts';
import { lockServiceDirectory } from '../../server/start/lock.ts';
import { log, openServeLog } from '../../server/start/log.ts';
import { serveUntilStopped, withStopSignal } from '../../server/start/start.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { serveReplica } from './serve-replica.ts';

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
  const { registry, outcome } = samples
    ? await createSamples(directory, opening, stop)
    : { registry: await openRegistry(directory, opening), outcome: null };
  if (outcome === 'left')
    log(`No samples were added: there are repositories in ${directory} already.`, 'warn');
  if (outcome === 'interrupted')
    log('Not all samples are there: `serve --samples` adds the others when it is started again.', 'warn');
  const library = createGitLibrary(registry, { hasChecks: true, tell: log });
  const fetching = createFetching(registry, { intervalMs: settings.fetchInterval });
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
      mirrorDirectory: './mirror',
      onListening,
    });
  } finally {
    fetching.close();
    await library.close();
    await registry.close();
    await lock.release();
  }
}
