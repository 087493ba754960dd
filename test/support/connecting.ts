import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { makeCommits } from '../../src/server/demo/commits.ts';
import { initialise } from '../../src/server/git/bare.ts';
import { Git } from '../../src/server/git/git.ts';
import { readBranches } from '../../src/server/git/refs.ts';
import { openRegistry, type RegistryOptions } from '../../src/server/git/repositories.ts';
import { plan, write } from './commits.ts';
import { KEY, startGitService } from './git-service.ts';

const git = new Git();

/** The embedded service, to which external repositories are connected. */
export type ConnectingService = Awaited<ReturnType<typeof startConnecting>>;

/** Starts the service on a directory; it ends with the running test. */
export async function startConnecting(directory: string, options: RegistryOptions) {
  const registry = await openRegistry(directory, { sources: 'any', ...options });
  const { baseUrl, close } = await startGitService(registry);
  /** Asks the current API: with a body, by POST. */
  const ask = (path: string, body?: unknown): Promise<Response> => {
    const headers = { 'x-api-key': KEY };
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return fetch(baseUrl + path, body === undefined ? { headers } : { headers, method: 'POST', body: text });
  };
  return { registry, ask, close };
}

/** Commits a workbook `plan.xlsx` to a branch. @param from the parent; none if omitted */
export async function commitPlan(
  path: string,
  branch: string,
  content: string | Buffer,
  from?: string,
): Promise<void> {
  const parent = from === undefined ? {} : { from };
  await makeCommits(git, path, [plan(branch, [write('plan.xlsx', content)], parent)]);
}

/** Makes a repository to connect, `host/plan.git` below a folder, with one commit on `main`. */
export async function makeExternal(root: string): Promise<string> {
  const path = join(root, 'host', 'plan.git');
  await mkdir(join(root, 'host'), { recursive: true });
  await initialise(git, path);
  await commitPlan(path, 'main', 'one');
  return path;
}

/** The commits of a repository's branches, by their names. */
export async function headsOf(path: string): Promise<Record<string, string>> {
  return Object.fromEntries((await readBranches(git, path)).heads);
}
