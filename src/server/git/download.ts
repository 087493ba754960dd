import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { sizeOfFolder } from './folder-size.ts';
import type { Git } from './git.ts';
import { LASTING_SETTINGS } from './lasting.ts';
import { throughQuarantine } from './quarantine.ts';
import { isTooLarge, reach, type Remote, type RemoteError } from './remote-errors.ts';

/**
 * What answers for a repository on this machine: it maps whole packs (git-config(1), core.packedGitWindowSize, which it does not
 * heed), so that the bound on what is received from it would refuse every large repository.
 */
const LOCAL_SERVER = 'ulimit -S -v "$(ulimit -H -v)"; git upload-pack';

/** The option by which git is told what answers for a repository on this machine; none for one elsewhere. */
export function serverOf({ protocol }: Remote): string[] {
  return protocol === 'file' ? [`--upload-pack=${LOCAL_SERVER}`] : [];
}

/**
 * What git may take to unpack what is sent: a few bytes can stand for an object of any size, which is made in memory where it is told
 * by its difference from another one. Servers tell so of objects up to 512 MiB (git-config(1), `core.bigFileThreshold`), of which two
 * threads hold two each; ten million objects take about 2 GiB.
 */
const MAX_UNPACKING_KIB = 4 * 1024 ** 2;

/** Settings that keep git below that on machines with many processors, and beside large packs (git-config(1)). */
const THRIFTY_SETTINGS: readonly string[] = [
  'pack.threads=2',
  'core.packedGitWindowSize=32m',
  'core.packedGitLimit=256m',
].flatMap((setting) => ['-c', setting]);

/** What could not be taken, as it is too large: it is not downloaded again and again. */
export interface Oversize {
  last: {
    /** What was to be fetched, and how much there was already. */
    readonly attempt: string;
    readonly error: RemoteError;
  } | null;
}

/** What is downloaded, and how much of it is taken. */
interface Download {
  /** The object ids to fetch, by the full names of their references. */
  readonly wanted: ReadonlyMap<string, string>;
  /** What all objects of the repository may take on disk, in bytes; null for no bound. */
  readonly maxBytes: number | null;
  readonly oversize: Oversize;
}

async function attemptOf(gitDirectory: string, { wanted, maxBytes }: Download): Promise<string> {
  const hash = createHash('sha256').update(
    `${maxBytes} ${await sizeOfFolder(join(gitDirectory, 'objects'))}`,
  );
  for (const [name, id] of wanted) hash.update(`\n${name} ${id}`);
  return hash.digest('hex');
}

/**
 * Fetches objects without a change to any reference; a failure leaves nothing of them. What was too large is not asked for again
 * until it is something else, there or here.
 * @throws RemoteError
 */
export async function download(
  git: Git,
  remote: Remote,
  gitDirectory: string,
  what: Download,
): Promise<void> {
  const { wanted, maxBytes, oversize } = what;
  if (wanted.size === 0) return;
  const attempt = await attemptOf(gitDirectory, what);
  if (oversize.last?.attempt === attempt) throw oversize.last.error;
  const flags = ['--quiet', '--no-tags', '--no-write-fetch-head', '--stdin', ...serverOf(remote)];
  const args = [...LASTING_SETTINGS, ...THRIFTY_SETTINGS, 'fetch', ...flags, '--', remote.source];
  const options = { input: `${[...wanted.keys()].join('\n')}\n`, maxMemoryKib: MAX_UNPACKING_KIB };
  try {
    await throughQuarantine(gitDirectory, maxBytes, async (quarantine) => {
      await reach(git, remote, gitDirectory, args, { ...options, ...quarantine });
    });
    oversize.last = null;
  } catch (error) {
    if (isTooLarge(error)) oversize.last = { attempt, error };
    throw error;
  }
}
