import { join } from 'node:path';

import { compareWithGit } from '../../src/server/demo/compare.ts';
import { createSamples } from '../../src/server/demo/samples.ts';
import { createWriter } from '../../src/server/demo/writer.ts';
import { encodeSegment, repositoryPath } from '../../src/lib/paths/safe-path.ts';
import { type GitService, KEY, startGitService, TOKEN } from './git-service.ts';
import { temporaryFolder } from './temporary.ts';

/** The embedded service with sample repositories, and an empty directory for a mirror. */
export interface Embedded {
  readonly service: GitService;
  /** Commits a change of one workbook. */
  readonly edit: ReturnType<typeof createWriter>;
  readonly directory: string;
  /** The settings as variables. */
  readonly settings: Readonly<Record<string, string>>;
  /** Every request that the service answered, as `METHOD path`. */
  readonly requests: string[];
  /** The differences between the mirror and Git, one per line. */
  readonly differences: () => Promise<readonly string[]>;
}

/** Starts the embedded service in this process; it ends with the running test. */
export async function startEmbedded(): Promise<Embedded> {
  const folder = await temporaryFolder();
  const samples = await createSamples(join(folder, 'service'));
  const requests: string[] = [];
  const service = await startGitService(samples.registry, ({ method, path }) =>
    requests.push(`${method} ${path}`),
  );
  const directory = join(folder, 'mirrored');
  return {
    service,
    edit: createWriter(samples.registry),
    directory,
    requests,
    settings: {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl,
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
