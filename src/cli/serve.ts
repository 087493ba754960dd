import { randomBytes } from 'node:crypto';

import { formatListen } from '../config/addresses.ts';
import type { Settings } from '../config/schema.ts';
import { createSamples } from '../demo/samples.ts';
import { createGitLibrary } from '../git/library.ts';
import { openRegistry } from '../git/registry.ts';
import { MirrorError } from '../model/errors.ts';
import { fixedKey, type KnownKey } from '../service/keys.ts';
import { createService, type RequestInfo } from '../service/service.ts';
import { loudness } from './loudness.ts';
import { printData, tell } from './output.ts';
import { STOP_SIGNALS } from './signals.ts';

/** How the embedded service is run. */
export interface ServeOptions {
  /** Put sample repositories into an empty directory. */
  readonly samples: boolean;
}

/** Runs the embedded service until a signal ends it. @throws MirrorError `settings.invalid`, `directory.unusable` */
export async function serve(settings: Settings, { samples }: ServeOptions): Promise<void> {
  const { serve: own } = settings;
  const directory = requiredDirectory(own);
  const registry = samples ? (await createSamples(directory)).registry : await openRegistry(directory);
  const library = createGitLibrary(registry);
  const given = chooseCredentials(own);
  const service = createService({
    library,
    changes: library.changes,
    keys: () => Promise.resolve(given.keys),
    pageSize: own.pageSize,
    onRequest: tellRequest,
  });
  try {
    const { baseUrl, port } = await service.listen(own.listen);
    const count = (await library.repositories()).length;
    tell(`Serving ${count} repositories of ${directory} on ${formatListen({ ...own.listen, port })}.`);
    if (given.temporary !== null) {
      const { apiKey, apiToken } = given.temporary;
      tell('No key is set, so these hold until the service stops; as settings of a mirror of it:');
      tell(`  service:\n    baseUrl: ${baseUrl}\n    apiKey: ${apiKey}\n    apiToken: ${apiToken}`);
    }
    printData(baseUrl);
    await stopSignal();
  } finally {
    await service.close();
    await library.close();
    await registry.close();
  }
}

function requiredDirectory({ directory }: Settings['serve']): string {
  if (directory !== undefined) return directory;
  throw new MirrorError(
    'settings.invalid',
    'serve.directory: is required: where the service keeps its repositories.',
    {
      hint: 'Give --serve-directory DIR, the variable WORKBOOK_MIRROR_SERVE_DIRECTORY, or the key in the settings file.',
    },
  );
}

/** The credentials of a service: those of the settings, or, where there is none, some that hold until it stops. */
function chooseCredentials({ apiKey, apiToken }: Settings['serve']): {
  readonly keys: readonly KnownKey[];
  readonly temporary: { readonly apiKey: string; readonly apiToken: string } | null;
} {
  const random = (): string => randomBytes(24).toString('base64url');
  const temporary = apiKey === undefined ? { apiKey: random(), apiToken: random() } : null;
  const key = apiKey?.reveal() ?? temporary?.apiKey;
  const token = apiToken?.reveal() ?? temporary?.apiToken;
  const keys = [
    ...(key === undefined ? [] : [fixedKey('personal', 'settings', key)]),
    ...(token === undefined ? [] : [fixedKey('token', 'settings', token)]),
  ];
  return {
    keys,
    temporary: temporary === null ? null : { ...temporary, apiToken: token ?? temporary.apiToken },
  };
}

function tellRequest({ method, path, status, durationMs }: RequestInfo): void {
  if (loudness() === 'quiet') return;
  tell(`${new Date().toISOString()} ${method} ${path} ${status} ${Math.round(durationMs)} ms`);
}

/** Waits for SIGINT or SIGTERM. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    const onSignal = (): void => {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
      resolve();
    };
    for (const name of STOP_SIGNALS) process.on(name, onSignal);
  });
}
