import type { Command } from 'commander';

import { loadPage } from '../../lib/http/page-files.ts';
import { formatListen } from '../../config/addresses.ts';
import type { Settings } from '../../config/schema.ts';
import { createSamples } from '../../server/demo/samples.ts';
import { createFetching } from '../../server/external/fetches.ts';
import { createGitLibrary } from '../../server/git/library.ts';
import { openRegistry } from '../../server/git/registry.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { createService } from '../../server/http/service.ts';
import { endOrphans } from '../../server/start/orphans.ts';
import { printData } from '../frame/output.ts';
import { serveReplica } from './serve-replica.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { checkAhead, tellFailure } from '../../server/start/checks.ts';
import { prepareServeDirectory, requiredServeDirectory } from '../../server/start/directory.ts';
import { tellFetch, tellOpening, tellReading } from '../../server/start/notices.ts';
import { openServedKeys } from '../../server/start/keys.ts';
import { lockServiceDirectory } from '../../server/start/lock.ts';
import { log, openServeLog } from '../../server/start/log.ts';
import { closeServeDirectory } from '../../server/start/privacy.ts';
import {
  createTroubleTeller,
  listenForStop,
  type Stop,
  tellKeys,
  tellRequest,
} from '../../server/start/start.ts';

/** The most that the objects of a cloned repository may take on disk: 20 GiB. */
const MAX_REPOSITORY_BYTES = 20 * 1024 ** 3;

/** `serve`: runs the embedded service, or a replica, until a signal ends it. @throws MirrorError `settings.invalid`, `directory.*`, `http.unusable` */
export async function runServe(command: Command): Promise<void> {
  const { samples, fromMirror }: { samples?: true; fromMirror?: true } = command.opts();
  const replica = fromMirror === true ? settingsOf(command, ['directory']).settings : null;
  const settings = replica ?? settingsOf(command, []).settings;
  openServeLog(settings.log);
  const stop = listenForStop();
  try {
    if (replica !== null) await serveReplica(stop, replica);
    else await serveRepositories(stop, settings, samples === true);
    log('Stopped.');
  } finally {
    stop.close();
  }
}

async function serveRepositories(stop: Stop, { serve: own }: Settings, samples: boolean): Promise<void> {
  const directory = requiredServeDirectory(own);
  await prepareServeDirectory(directory);
  await closeServeDirectory(directory, log);
  const { keys, temporary, secrets } = await openServedKeys(own, directory);
  const page = await loadPage('server/uploads/page', 'the form for uploads');
  const lock = await lockServiceDirectory(directory);
  const orphans = await endOrphans(directory);
  if (orphans.length > 0)
    log(`Ended ${counted(orphans.length, 'process', 'processes')} of a service that was killed.`, 'warn');
  const opening = {
    sources: own.sources,
    maxRepositoryBytes: MAX_REPOSITORY_BYTES,
    onEvent: tellFetch,
    onOpening: tellOpening,
  };
  const { registry, outcome } = samples
    ? await createSamples(directory, opening, stop.signal)
    : { registry: await openRegistry(directory, opening), outcome: null };
  if (outcome === 'left')
    log(`No samples were added: there are repositories in ${directory} already.`, 'warn');
  if (outcome === 'interrupted')
    log('Not all samples are there: `serve --samples` adds the others when it is started again.', 'warn');
  const library = createGitLibrary(registry, {
    checks: { onFailure: tellFailure },
    onReading: tellReading,
  });
  const fetching = createFetching(registry, { intervalMs: own.fetchInterval });
  const service = createService({
    library,
    changes: library.changes,
    keys,
    page,
    onRequest: (info) => tellRequest(info, secrets),
    onTrouble: createTroubleTeller(),
  });
  try {
    if (stop.isAsked()) return;
    const { baseUrl, port } = await service.listen(own.listen);
    log(`Listening on ${formatListen({ ...own.listen, port })}.`);
    await Promise.race([checkAhead(library), stop.asked]);
    if (stop.isAsked()) return;
    const count = (await library.repositories()).length;
    log(`Serving ${counted(count, 'repository', 'repositories')} of ${directory}.`);
    log(`The form for uploads: ${new URL('/', baseUrl).href}`);
    await tellKeys({ baseUrl, own, keys, temporary, mirrorDirectory: './mirror' });
    printData(say`${baseUrl}`);
    await stop.asked;
  } finally {
    fetching.close();
    await service.close();
    await library.close();
    await registry.close();
    await lock.release();
  }
}
