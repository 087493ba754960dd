import { mkdir, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { initialise } from '../git/bare.ts';
import { Git } from '../git/git.ts';
import { readHeads } from '../git/refs.ts';
import { openRegistry, type Registry, type RegistryOptions } from '../git/repositories.ts';
import { type CommitPlan, makeCommits } from './commits.ts';
import { accountingCommits, forecastCommits, salesCommits } from './sample-content.ts';

/** The sample data of the demo. */
export interface Samples {
  /** The registry for the service; the caller closes it. */
  readonly registry: Registry;
  /** False if they existed already, or the directory has other repositories. */
  readonly areNew: boolean;
}

/** Address of the external sample repository, which lives in the samples' own directory. */
const EXTERNAL_URL = 'https://git.example.com/planning/forecast.git';
const EXTERNAL_NAME = 'git.example.com/planning/forecast.git';
const NAMES = ['Accounting', 'Sales Europe', EXTERNAL_NAME] as const;

/**
 * Makes sample repositories in a directory without other repositories: `Accounting` and `Sales Europe`, which are drag-and-drop
 * repositories, and an external one. Samples with commits are kept, so that a demo can continue with its data; missing ones are added.
 * @param directory made when it does not exist
 * @param options for opening the registry
 * @throws MirrorError when the directory cannot be used or git fails
 */
export async function createSamples(directory: string, options: RegistryOptions = {}): Promise<Samples> {
  const registry = await openRegistry(directory, options);
  if (registry.list().some(({ full_name }) => !NAMES.some((name) => name === full_name)))
    return { registry, areNew: false };
  const git = new Git();
  const source = join(resolve(directory), 'external', 'forecast.git');
  const areNew = [
    await fill(git, registry, NAMES[0], accountingCommits),
    await fill(git, registry, NAMES[1], salesCommits),
    await connect(git, registry, source),
  ];
  return { registry, areNew: areNew.includes(true) };
}

/** Makes a drag-and-drop repository and its commits if they are missing. Git makes all commits or none. */
async function fill(
  git: Git,
  registry: Registry,
  name: string,
  commits: () => Promise<CommitPlan[]>,
): Promise<boolean> {
  const found = registry.list().find(({ full_name }) => full_name === name);
  const { id } = found ?? (await registry.create(name));
  const path = registry.gitDirectory(id);
  if ((await readHeads(git, path)).size > 0) return false;
  await makeCommits(git, path, await commits());
  return true;
}

/** Makes the external repository and connects it, unless both are done. */
async function connect(git: Git, registry: Registry, source: string): Promise<boolean> {
  if (registry.list().some(({ full_name }) => full_name === EXTERNAL_NAME)) return false;
  await rm(source, { recursive: true, force: true });
  await mkdir(dirname(source), { recursive: true });
  await initialise(git, source);
  await makeCommits(git, source, await forecastCommits());
  await registry.connectSample(EXTERNAL_URL, source);
  return true;
}
