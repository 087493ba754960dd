import { formatListen } from '../config/addresses.ts';
import type { Settings } from '../config/schema.ts';
import { createSamples } from '../demo/samples.ts';
import { createFetching } from '../git/fetching.ts';
import { createGitLibrary } from '../git/library.ts';
import { openRegistry } from '../git/registry.ts';
import { loadPage } from '../service/page.ts';
import { createService, type RequestInfo } from '../service/service.ts';
import { loudness } from './loudness.ts';
import { printData, tell } from './output.ts';
import { UPLOAD_PAGE_FOLDERS } from './pages.ts';
import { requestLines } from './request-log.ts';
import { checkAhead, openChecks } from './serve-checks.ts';
import { requiredServeDirectory } from './serve-directory.ts';
import { tellFetch } from './serve-fetching.ts';
import { openServedKeys, type TemporaryKeys } from './serve-keys.ts';
import { lockServiceDirectory } from './serve-lock.ts';
import { STOP_SIGNALS } from './signals.ts';

/** How the embedded service is run. */
export interface ServeOptions {
  /** Put sample repositories into an empty directory. */
  readonly samples: boolean;
}

/** Runs the embedded service until a signal ends it. @throws MirrorError `settings.invalid`, `directory.*` */
export async function serve(settings: Settings, { samples }: ServeOptions): Promise<void> {
  const { serve: own } = settings;
  const directory = requiredServeDirectory(own);
  const { keys, temporary, secrets } = await openServedKeys(own, directory);
  const page = await loadPage(UPLOAD_PAGE_FOLDERS);
  const lock = await lockServiceDirectory(directory);
  const opening = { sources: own.sources, onEvent: tellFetch };
  const registry = samples
    ? (await createSamples(directory, opening)).registry
    : await openRegistry(directory, opening);
  const { checks, close: closeChecks } = await openChecks(directory);
  const library = createGitLibrary(registry, { maxUploadBytes: own.maxUploadSize, checks });
  const fetching = createFetching(registry, { intervalMs: own.fetchInterval });
  const service = createService({
    library,
    changes: library.changes,
    keys,
    page,
    pageSize: own.pageSize,
    onRequest: (info) => tellRequest(info, secrets),
  });
  try {
    const { baseUrl, port } = await service.listen(own.listen);
    await checkAhead(library);
    const count = (await library.repositories()).length;
    tell(`Serving ${count} repositories of ${directory} on ${formatListen({ ...own.listen, port })}.`);
    tell(`The page for uploads: ${new URL('/', baseUrl).href}`);
    if (temporary !== null) tellTemporary(temporary, baseUrl);
    printData(baseUrl);
    await stopSignal();
  } finally {
    fetching.close();
    await service.close();
    await library.close();
    await closeChecks();
    await registry.close();
    await lock.release();
  }
}

/** Tells the keys that hold until the service stops, as settings of a mirror of it. */
export function tellTemporary({ apiKey, apiToken }: TemporaryKeys, baseUrl: string): void {
  tell('No key is set, so what follows holds until the service stops; as settings of a mirror of it:');
  const token = apiToken === null ? '' : `\n    apiToken: ${apiToken}`;
  tell(`  service:\n    baseUrl: ${baseUrl}\n    apiKey: ${apiKey}${token}`);
}

/** Tells of a request, as loudly as is asked for. @param secrets what must not be shown wherever it stands */
export function tellRequest(info: RequestInfo, secrets: readonly string[]): void {
  const { line, failure } = requestLines(info, secrets, new Date());
  if (failure !== null) tell(failure, 'error');
  else if (loudness() !== 'quiet') tell(line);
}

/** Waits for SIGINT or SIGTERM. */
export function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    const onSignal = (): void => {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
      resolve();
    };
    for (const name of STOP_SIGNALS) process.on(name, onSignal);
  });
}
