import { join, resolve } from 'node:path';

import { initialise } from '../git/bare.ts';
import { createGit } from '../git/git.ts';
import { openRegistry, type Registry, type RegistryOptions } from '../git/registry.ts';
import { makeCommits } from './commits.ts';
import { accountingCommits, forecastCommits, salesCommits } from './sample-content.ts';

/** The sample data of the demo. */
export interface Samples {
  /** The registry to make a service on; the caller's to close. */
  readonly registry: Registry;
}

/** Address of the external sample repository, which lives in the samples' own directory. */
const EXTERNAL_URL = 'https://git.example.com/planning/forecast.git';
const YEAR_MS = 365 * 86_400_000;

/**
 * Makes sample repositories in a directory: `Accounting` and `Sales Europe`, which are drag-and-drop repositories, and an
 * external one. A directory that holds repositories already is taken as it is, so that a demo can go on with its data.
 * @param directory made when it does not exist
 * @param options what the registry is opened with
 * @throws MirrorError when the directory cannot be used or git fails
 */
export async function createSamples(directory: string, options: RegistryOptions = {}): Promise<Samples> {
  const registry = await openRegistry(directory, options);
  if (registry.list().length > 0) return { registry };
  const git = createGit();
  const external = join(resolve(directory), 'external', 'forecast.git');
  const createdAt = new Date(Date.now() - YEAR_MS);

  const accounting = await registry.create('Accounting', createdAt);
  await makeCommits(git, registry.gitDirectory(accounting.id), await accountingCommits());
  const sales = await registry.create('Sales Europe', createdAt);
  await makeCommits(git, registry.gitDirectory(sales.id), await salesCommits());
  await initialise(git, external);
  await makeCommits(git, external, await forecastCommits());
  await registry.connect({ url: EXTERNAL_URL, source: external, createdAt });
  return { registry };
}
