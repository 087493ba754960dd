import { join } from 'node:path';

import { compareWithGit } from '../../src/server/demo/compare.ts';
import { createSamples } from '../../src/server/demo/samples.ts';
import { createWriter } from '../../src/server/demo/writer.ts';
import { encodeSegment, repositoryPath } from '../../src/lib/paths/safe-path.ts';
import { KEY, startGitService, TOKEN } from './git-service.ts';
import { temporaryFolder } from './temporary.ts';

/** The embedded service with sample repositories, and an empty directory for a mirror. */
export type Embedded = Awaited<ReturnType<typeof startEmbedded>>;

/** Starts the embedded service in this process; it ends with the running test. */
export async function startEmbedded() {
  const folder = await temporaryFolder();
  const samples = await createSamples(join(folder, 'service'));
  /** Every request that the service answered, as `METHOD path`. */
  const requests: string[] = [];
  const service = await startGitService(samples.registry, ({ method, path }) =>
    requests.push(`${method} ${path}`),
  );
  const directory = join(folder, 'mirrored');
  return {
    service,
    /** Commits a change of one workbook. */
    edit: createWriter(samples.registry),
    directory,
    requests,
    /** The settings as variables. */
    settings: {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl,
      WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
      WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN,
      WORKBOOK_MIRROR_DIRECTORY: directory,
    },
    /** The differences between the mirror and Git, one per line. */
    differences: async () =>
      (
        await compareWithGit(samples.registry, (repository, branch) =>
          join(directory, 'mirror', repositoryPath(repository), encodeSegment(branch)),
        )
      ).differences,
  };
}
