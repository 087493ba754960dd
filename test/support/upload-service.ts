import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { loadPage } from '../../src/lib/http/page-files.ts';
import { createGitLibrary } from '../../src/server/git/library.ts';
import { openRegistry } from '../../src/server/git/repositories.ts';
import { fixedKey } from '../../src/server/keys/keys.ts';
import { startGitService } from './git-service.ts';
import { temporaryFolder } from './temporary.ts';

export const KEY = 'key-of-anna';
export const GROUP_KEY = 'key-of-a-group';

const execute = promisify(execFile);

/** The embedded service as in `serve`, with its page. */
export type UploadService = Awaited<ReturnType<typeof startUploadService>>;

/** Starts the service on no repositories; it ends with the running test. */
export async function startUploadService(maxUploadBytes?: number) {
  const folder = await temporaryFolder();
  const registry = await openRegistry(join(folder, 'service'));
  const library = createGitLibrary(registry, maxUploadBytes === undefined ? {} : { maxUploadBytes });
  /** The errors of the service itself. */
  const failures: unknown[] = [];
  const noteFailure = ({ error }: { readonly error?: unknown }): void => {
    if (error !== undefined) failures.push(error);
  };
  const keys = [
    fixedKey('personal', 'Anna Ångström', KEY),
    fixedKey('group', 'hook', GROUP_KEY),
    fixedKey('token', 'Anna Ångström', 'token-of-anna'),
  ];
  const page = await loadPage('server/uploads/page', 'the form for uploads');
  const options = { page, keys: () => Promise.resolve(keys) };
  const { baseUrl } = await startGitService(registry, noteFailure, options, library);
  const origin = new URL('/', baseUrl).href;
  /** Address of a repository for git, with the key in it. */
  const address = (name: string): string => `${origin.replace('//', `//anyone:${KEY}@`)}git/${name}`;
  return { registry, folder, origin, failures, address };
}

/** The result of a git program. */
export type GitEnded = Awaited<ReturnType<typeof git>>;

/** Runs git as on another machine. @returns its exit code, and standard output and error */
export async function git(cwd: string, ...args: readonly string[]) {
  const env = {
    PATH: process.env['PATH'],
    HOME: cwd,
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_AUTHOR_NAME: 'Bea',
    GIT_AUTHOR_EMAIL: 'bea@example.com',
    GIT_COMMITTER_NAME: 'Bea',
    GIT_COMMITTER_EMAIL: 'bea@example.com',
  };
  try {
    const { stdout, stderr } = await execute('git', args, { cwd, env, maxBuffer: 256 * 1024 * 1024 });
    return { code: 0, said: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, said: stdout + stderr };
  }
}
