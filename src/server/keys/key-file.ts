import { open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { replaceFile } from '../../lib/disk/durable.ts';
import { lockWithin } from '../../lib/disk/lock.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../lib/native/file-calls.ts';
import { type StoredKey, storedKeySchema } from './keys.ts';

/** The file of the keys in the directory of a service. */
const FILE = 'keys.json';

/** Version 0.1.0 kept each key in a file of its own, `<id>.json`, in this folder. It is used until {@link FILE} is first written. */
const FOLDER_BEFORE = 'keys';

/** Locked while a process changes the keys; otherwise two processes could undo each other's change. */
const LOCK_FILE = 'keys.lock';

const fileSchema = z.object({ keys: z.array(storedKeySchema) });

/**
 * Reads the keys of a service.
 * @param directory of the service; may hold no keys
 * @returns in the order in which they were made
 * @throws MirrorError `directory.unusable` for a damaged file; system errors
 */
export async function readKeys(directory: string): Promise<readonly StoredKey[]> {
  const path = join(directory, FILE);
  const text = await unlessMissing(readFile(path, 'utf8'));
  return text === null
    ? readFolderBefore(join(directory, FOLDER_BEFORE))
    : parse(path, text, fileSchema).keys;
}

async function readFolderBefore(folder: string): Promise<readonly StoredKey[]> {
  const names = ((await unlessMissing(readdir(folder))) ?? []).filter((name) => /^[^.].*\.json$/.test(name));
  const keys = await Promise.all(
    names.map(async (name) => {
      const path = join(folder, name);
      const key = parse(path, await readFile(path, 'utf8'), storedKeySchema.omit({ id: true }));
      return Object.assign(key, { id: name.replace(/\.json$/, '') });
    }),
  );
  return keys.sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
}

/** The error repeats no text of the file, which may hold a secret. */
function parse<T>(path: string, text: string, schema: z.ZodType<T>): T {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    throw new MirrorError('directory.unusable', `${path} does not hold keys: it is damaged.`, {
      hint: 'Restore it from a backup, or remove it and make new keys with `keys create`.',
    });
  }
}

/** Longest wait of a change for another one, in milliseconds. */
const LOCK_PATIENCE_MS = 10_000;

/**
 * Changes the keys of a service, in one step that survives a power cut. Only the owner can read the file.
 * @throws MirrorError `directory.locked` if another process does not finish its change, and as {@link readKeys}
 */
export async function changeKeys(
  directory: string,
  change: (keys: readonly StoredKey[]) => readonly StoredKey[] | Promise<readonly StoredKey[]>,
): Promise<void> {
  const native = bindNativeCalls();
  const lock = await open(join(directory, LOCK_FILE), 'a', 0o600);
  try {
    if (!(await lockWithin(() => native.tryLock(lock.fd), LOCK_PATIENCE_MS)))
      throw new MirrorError('directory.locked', `Another process changes the keys in ${directory}.`);
    const keys = await change(await readKeys(directory));
    await replaceFile(join(directory, FILE), `${JSON.stringify({ keys }, null, 2)}\n`, directory, 0o600);
    await rm(join(directory, FOLDER_BEFORE), { recursive: true, force: true });
  } finally {
    await lock.close();
  }
}
