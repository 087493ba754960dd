import { randomBytes } from 'node:crypto';

import { formatListen } from '../config/addresses.ts';
import type { Settings } from '../config/schema.ts';
import { createSamples } from '../demo/samples.ts';
import { MirrorError } from '../model/errors.ts';
import { openRegistry } from '../service/registry.ts';
import { createService } from '../service/service.ts';
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
  if (own.directory === undefined) {
    throw new MirrorError(
      'settings.invalid',
      'serve.directory: is required: where the service keeps its repositories.',
      {
        hint: 'Give --serve-directory DIR, the variable WORKBOOK_MIRROR_SERVE_DIRECTORY, or the key in the settings file.',
      },
    );
  }
  const registry = samples
    ? (await createSamples(own.directory)).registry
    : await openRegistry(own.directory);
  const apiKey = own.apiKey?.reveal() ?? randomBytes(24).toString('base64url');
  const apiToken =
    own.apiToken?.reveal() ?? (own.apiKey === undefined ? randomBytes(24).toString('base64url') : undefined);
  const service = createService({
    registry,
    apiKey,
    ...(apiToken === undefined ? {} : { apiToken }),
    pageSize: own.pageSize,
    onRequest: ({ method, path, status, durationMs }) => {
      if (loudness() === 'quiet') return;
      tell(`${new Date().toISOString()} ${method} ${path} ${status} ${Math.round(durationMs)} ms`);
    },
  });
  try {
    const { baseUrl, port } = await service.listen(own.listen);
    tell(
      `Serving ${registry.list().length} repositories of ${own.directory} on ${formatListen({ ...own.listen, port })}.`,
    );
    if (own.apiKey === undefined) {
      tell('No key is set, so these hold until the service stops; as settings of a mirror of it:');
      tell(`  service:\n    baseUrl: ${baseUrl}\n    apiKey: ${apiKey}\n    apiToken: ${apiToken ?? ''}`);
    }
    printData(baseUrl);
    await stopSignal();
  } finally {
    await service.close();
    await registry.close();
  }
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
