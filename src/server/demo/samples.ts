import { mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { initialise } from '../git/bare.ts';
import { Git } from '../git/git.ts';
import { readHeads } from '../git/refs.ts';
import { openRegistry, type Registry, type RegistryOptions } from '../git/repositories.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { type CommitPlan, makeCommits } from './commits.ts';
import { accountingCommits, forecastCommits, salesCommits } from './sample-content.ts';

/** The sample data of the demo. */
export interface Samples {
  /** The registry for the service; the caller closes it. */
  readonly registry: Registry;
  /** Whether the samples were made now, were interrupted, or existed already. */
  readonly outcome: 'made' | 'interrupted' | 'left';
}

/** Address of the external sample repository, which lives in the samples' own directory. */
const EXTERNAL_URL = 'https://git.example.com/planning/forecast.git';
const EXTERNAL_NAME = 'git.example.com/planning/forecast.git';
const YEAR_MS = 365 * 86_400_000;

/** Marks a directory in which samples are still missing. */
const NOTE_NAME = 'samples-unfinished';

/**
 * Makes sample repositories in a directory: `Accounting` and `Sales Europe`, which are drag-and-drop repositories, and an
 * external one. Existing repositories are kept, so that a demo can continue with its data; only
 * interrupted samples are completed.
 * @param directory made when it does not exist
 * @param options for opening the registry
 * @param signal interrupts it between two repositories
 * @throws MirrorError when the directory cannot be used or git fails
 */
export async function createSamples(
  directory: string,
  options: RegistryOptions = {},
  signal?: AbortSignal,
): Promise<Samples> {
  const root = resolve(directory);
  const note = join(root, NOTE_NAME);
  const registry = await openRegistry(directory, options);
  const isUnfinished = (await unlessMissing(stat(note))) !== null;
  if (registry.list().length > 0 && !isUnfinished) return { registry, outcome: 'left' };
  await writeFile(note, 'Not all samples are there: `serve --samples` adds the others.\n');
  const git = new Git();
  const createdAt = new Date(Date.now() - YEAR_MS);
  const steps = [
    async () => fill(git, registry, 'Accounting', createdAt, await accountingCommits()),
    async () => fill(git, registry, 'Sales Europe', createdAt, await salesCommits()),
    () => connect(git, registry, join(root, 'external', 'forecast.git'), createdAt),
  ];
  for (const step of steps) {
    if (signal?.aborted === true) return { registry, outcome: 'interrupted' };
    await step();
  }
  await rm(note);
  return { registry, outcome: 'made' };
}

/** Makes a drag-and-drop repository and its commits if they are missing. Git makes all commits or none. */
async function fill(
  git: Git,
  registry: Registry,
  name: string,
  createdAt: Date,
  commits: readonly CommitPlan[],
): Promise<void> {
  const found = registry.list().find(({ full_name }) => full_name === name);
  const { id } = found ?? (await registry.create(name, createdAt));
  const path = registry.gitDirectory(id);
  if ((await readHeads(git, path)).size === 0) await makeCommits(git, path, commits);
}

/** Makes the external repository and connects it, unless both are done. */
async function connect(git: Git, registry: Registry, source: string, createdAt: Date): Promise<void> {
  if (registry.list().some(({ full_name }) => full_name === EXTERNAL_NAME)) return;
  await rm(source, { recursive: true, force: true });
  await mkdir(dirname(source), { recursive: true });
  await initialise(git, source);
  await makeCommits(git, source, await forecastCommits());
  await registry.connectSample(EXTERNAL_URL, source, createdAt);
}
