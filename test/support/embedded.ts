import { join } from 'node:path';

import { onTestFinished } from 'vitest';

import { compareWithGit } from '../../src/server/demo/compare.ts';
import { createSamples } from '../../src/server/demo/samples.ts';
import { createWriter, type Writer } from '../../src/server/demo/writer.ts';
import { encodeSegment, repositoryPath } from '../../src/lib/paths/safe-path.ts';
import type { Service } from '../../src/server/http/service.ts';
import { createGitService } from './git-service.ts';
import { temporaryFolder } from './temporary.ts';

/** The embedded service with sample repositories, and an empty directory for a mirror. */
export interface Embedded {
  readonly service: Service;
  readonly writer: Writer;
  readonly directory: string;
  /** The settings as variables. */
  readonly settings: Readonly<Record<string, string>>;
  /** Every request that the service answered, as `METHOD path`. */
  readonly requests: string[];
  /** The differences between the mirror and Git, one per line. */
  readonly differences: () => Promise<readonly string[]>;
}

const KEY = 'a-key-of-the-tests';
const TOKEN = 'a-token-of-the-tests';

/** Starts the embedded service in this process; it ends with the running test. */
export async function startEmbedded(): Promise<Embedded> {
  const folder = await temporaryFolder();
  const samples = await createSamples(join(folder, 'service'));
  const requests: string[] = [];
  const service = createGitService({
    registry: samples.registry,
    apiKey: KEY,
    apiToken: TOKEN,
    onRequest: ({ method, path }) => requests.push(`${method} ${path}`),
  });
  onTestFinished(async () => {
    await service.close();
    await samples.registry.close();
  });
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  const directory = join(folder, 'mirrored');
  return {
    service,
    writer: createWriter(samples.registry),
    directory,
    requests,
    settings: {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
      WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
      WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN,
      WORKBOOK_MIRROR_DIRECTORY: directory,
    },
    differences: async () =>
      (
        await compareWithGit(samples.registry, (repository, branch) =>
          join(directory, 'mirror', repositoryPath(repository), encodeSegment(branch)),
        )
      ).differences,
  };
}
