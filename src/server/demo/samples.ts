import { mkdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { initialise } from '../git/bare.ts';
import { Git } from '../git/git.ts';
import { openRegistry, type Registry, type RegistryOptions } from '../git/repositories.ts';
import { makeCommits } from './commits.ts';
import { accountingCommits, forecastCommits, salesCommits } from './sample-content.ts';

/** The sample data of the demo. */
export interface Samples {
  /** The registry for the service; the caller closes it. */
  readonly registry: Registry;
  /** False if the directory has repositories already. */
  readonly areNew: boolean;
}

/** Address of the external sample repository, which lives in the samples' own directory. */
const EXTERNAL_URL = 'https://git.example.com/planning/forecast.git';

/**
 * Makes sample repositories in a directory without repositories: `Accounting` and `Sales Europe`, which are drag-and-drop
 * repositories, and an external one.
 * @param directory made when it does not exist
 * @param options for opening the registry
 * @throws MirrorError when the directory cannot be used or git fails
 */
export async function createSamples(directory: string, options: RegistryOptions = {}): Promise<Samples> {
  const registry = await openRegistry(directory, options);
  if (registry.list().length > 0) return { registry, areNew: false };
  const git = new Git();
  const samples = { Accounting: accountingCommits, 'Sales Europe': salesCommits };
  for (const [name, commits] of Object.entries(samples)) {
    const { id } = await registry.create(name);
    await makeCommits(git, registry.gitDirectory(id), await commits());
  }
  const source = join(resolve(directory), 'external', 'forecast.git');
  await mkdir(dirname(source), { recursive: true });
  await initialise(git, source);
  await makeCommits(git, source, await forecastCommits());
  await registry.connectSample(EXTERNAL_URL, source);
  return { registry, areNew: true };
}
