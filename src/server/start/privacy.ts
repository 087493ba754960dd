import { constants } from 'node:fs';
import { open, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';

/** The permissions of a service's directory and all in it: workbooks, keys and passwords are nobody else's. */
export const PRIVATE_FOLDER = 0o700;
export const PRIVATE_FILE = 0o600;

/** The permissions of everybody but the owner, all bits that can be set, and the one of folders for everybody (chmod(1), "sticky"). */
const OTHERS = 0o077;
const ALL = 0o7777;
const SHARED = 0o1000;

/** Names that a service makes in its directory, without the endings of files that are being written. */
const OWN_NAMES: ReadonlySet<string> = new Set([
  'checked-workbooks.log',
  'credentials',
  'external',
  'keys',
  'repositories',
  'repositories.json',
  'samples-unfinished',
  'serve.lock',
]);

/** File systems keep it in their topmost folder. */
const LOST_AND_FOUND = 'lost+found';

function isOwnName(name: string): boolean {
  return (
    OWN_NAMES.has(name) ||
    (name.endsWith('.tmp') && OWN_NAMES.has(name.replace(/(?:\.[0-9a-f-]{36})?\.tmp$/, '')))
  );
}

type Closing =
  /** They had none, or nothing is there. */
  | 'unchanged'
  | 'closed'
  /** They have some, which this user cannot or must not take away. */
  | 'open';

/**
 * Takes away what others than the owner may do with a file or folder of this user. Links are not followed.
 * @throws what the system says where it cannot be changed
 */
export async function closeToOthers(path: string, mayChange = true): Promise<Closing> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch(() => null);
  if (handle === null) return 'unchanged';
  try {
    const { mode, uid } = await handle.stat();
    if ((mode & OTHERS) === 0) return 'unchanged';
    if (!mayChange || uid !== process.geteuid?.() || (mode & SHARED) !== 0) return 'open';
    await handle.chmod(mode & ALL & ~OTHERS);
    return 'closed';
  } finally {
    await handle.close();
  }
}

/**
 * Closes the directory of a service to other users, from now on: files that this process makes, and those made before. A
 * directory that holds other things as well, or belongs to somebody else, stays as it is; the service's own files in it are
 * closed.
 * @param tell receives messages about changes, and about anything that stays open
 */
export async function closeServeDirectory(
  directory: string,
  tell: (text: string, level: 'info' | 'warn') => void,
): Promise<void> {
  process.umask(OTHERS);
  const names = (await readdir(directory)).filter((name) => name !== LOST_AND_FOUND);
  const own = names.filter(isOwnName);
  const isOwn = own.length === names.length;
  const outcome = await closeToOthers(await realpath(directory), isOwn);
  if (outcome === 'closed') tell(`Closed ${directory} to other users of this machine.`, 'info');
  if (outcome !== 'open') return;
  for (const name of own) await closeToOthers(join(directory, name));
  const why = isOwn ? "it is not this user's own" : 'it holds other things, too';
  const message = `Other users of this machine can look into ${directory}, as ${why}; they cannot read what the service keeps there.`;
  tell(message, 'warn');
}
