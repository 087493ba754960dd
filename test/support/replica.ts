import { hash } from 'node:crypto';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { onTestFinished } from 'vitest';

import type { TargetRecord } from '../../src/mirror/plan/record.ts';
import { createReplicaLibrary, type ReplicaLibrary } from '../../src/server/replica/library.ts';
import { fixedKey } from '../../src/server/keys/keys.ts';
import { createService } from '../../src/server/http/service.ts';

/** The key of the current API, and the one of v1. */
export const [KEY, TOKEN] = ['a-key-of-the-replica', 'a-token-of-the-replica'];

/** Makes the library of the mirror in a directory. */
export function replicaLibrary(
  directory: string,
  trouble: object[] = [],
  records: ReadonlyMap<string, TargetRecord> = new Map(),
): ReplicaLibrary {
  return createReplicaLibrary(
    directory,
    () => Promise.resolve(records),
    (target, path, what) => trouble.push({ target, path, what }),
  );
}

/** Serves a mirror until the running test ends. @param withToken false for a replica without v1 */
export async function startReplica(
  directory: string,
  { withToken = true, records = new Map<string, TargetRecord>() } = {},
) {
  const trouble: object[] = [];
  const library = replicaLibrary(directory, trouble, records);
  const keys = [fixedKey('personal', 'tests', KEY), fixedKey('token', 'tests', TOKEN)];
  if (!withToken) keys.pop();
  const service = createService({ library, keys: () => Promise.resolve(keys) });
  onTestFinished(() => service.close());
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  return {
    library,
    baseUrl,
    trouble,
    /** The settings of a mirror of it in another directory, as variables. */
    settingsFor: (place: string) => ({
      WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
      WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
      ...(withToken ? { WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN } : {}),
      WORKBOOK_MIRROR_DIRECTORY: place,
    }),
    /** Asks the current API. */
    ask: (path: string, headers: Record<string, string> = {}) =>
      fetch(`${baseUrl}${path}`, { headers: { 'x-api-key': KEY, ...headers } }),
  };
}

/** Every file below a mirror with its bytes, mode and time, and every folder. */
export async function contentsOf(directory: string): Promise<Record<string, string>> {
  const root = join(directory, 'mirror');
  const contents: Record<string, string> = {};
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const { mode, mtimeMs } = await lstat(path);
    const facts = async (): Promise<string> =>
      `${(mode & 0o7777).toString(8)} ${mtimeMs} ${hash('sha256', await readFile(path))}`;
    contents[relative(root, path)] = entry.isDirectory() ? 'folder' : await facts();
  }
  return contents;
}
