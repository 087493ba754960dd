import { isAbsolute } from 'node:path';

import { readAddress, type Sources } from '../git/addresses.ts';
import { blameRepository, LASTING_SETTINGS, syncFolders } from '../git/bare.ts';
import { download, type Oversize, serverOf } from '../git/download.ts';
import type { ForwardProxy } from '../git/forward-proxy.ts';
import type { Git } from '../git/git.ts';
import { isTooLarge, REMOTE_HINTS, RemoteError } from './errors.ts';
import { reach, type Remote } from './reach.ts';
import type { RegisteredRepository } from '../git/registry-index.ts';
import {
  isInStep,
  leaveOut,
  parseOwnReferences,
  parseRemoteReferences,
  planReferences,
  type ReferencePlan,
  type References,
} from '../git/remote-refs.ts';

/**
 * Says how a repository is reached. What a client named is held to the setting, also when that was another one at the time; a
 * source beside the address was chosen by the service itself.
 * @throws RemoteError when its address is not allowed
 */
export function remoteOf(
  { url, source }: Pick<RegisteredRepository, 'url' | 'source'>,
  sources: Sources,
  proxy: ForwardProxy,
  credentialFile: string | null,
): Remote {
  const from = source ?? '';
  if (source !== url && isAbsolute(from)) {
    return { source: from, protocol: 'file', origin: null, credentialFile: null, proxy };
  }
  const reading = readAddress(from, source === url ? sources : 'any');
  if (reading.kind === 'refused') {
    const message = 'the address is not one of those that the setting serve.sources allows';
    throw new RemoteError('unsupported', message, 'Set serve.sources to any, if such addresses are meant.');
  }
  const { protocol, origin } = reading.address;
  return { source: from, protocol, origin, credentialFile, proxy };
}

/** How long a server may think about which references it has, in milliseconds. */
const COMPARISON_LIMIT_MS = 60_000;

/** A reference that moves between two looks at it makes a fetch fail; one that moves so often in a row is bad luck. */
const ATTEMPTS = 3;

/** So much may be said of references: of half a million, at the length that they usually have. */
const MAX_REFERENCES_BYTES = 64 * 1024 ** 2;
/** Git holds all of it in memory before it says the first of it. */
const MAX_MEMORY_KIB = 512 * 1024;

/** References that this disk refuses are left out up to this number: with more, something else is wrong. */
const MAX_REFUSED = 100;

/**
 * Asks a repository elsewhere for its references.
 * @param limitMs how long the answer may take, in milliseconds
 * @throws RemoteError when it cannot be read
 */
export async function askRemote(
  git: Git,
  remote: Remote,
  limitMs: number = COMPARISON_LIMIT_MS,
): Promise<References> {
  const args = ['ls-remote', '--symref', ...serverOf(remote), '--', remote.source];
  const bounds = { limitMs, maxOutputBytes: MAX_REFERENCES_BYTES, maxMemoryKib: MAX_MEMORY_KIB };
  const references = parseRemoteReferences(await reach(git, remote, null, args, bounds));
  if ([...references.ids.values()].some((id) => id.length !== 40)) {
    // The service's versions have ids of 40 digits (service specification, section 2.3).
    throw new RemoteError(
      'unsupported',
      'the repository keeps its objects by SHA-256',
      REMOTE_HINTS.unsupported,
    );
  }
  return references;
}

/** Has for-each-ref look at each object, and fail where one is missing, but say no more of it. */
const OWN_FORMAT = '--format=%(objectname) %(refname)%(if)%(objecttype)%(then)%(end)';

/** @throws DamagedError when references or what they name cannot be read */
async function ownReferences(git: Git, gitDirectory: string): Promise<References> {
  const [ids, head] = await Promise.all([
    git.text(gitDirectory, ['for-each-ref', OWN_FORMAT]),
    // It ends with 1 where HEAD names a commit instead of a branch.
    git.text(gitDirectory, ['symbolic-ref', '--quiet', 'HEAD'], { alsoFine: 1 }),
  ]).catch(blameRepository);
  return { ids: parseOwnReferences(ids), head: head === '' ? null : head };
}

/** Changes references, all of them or none. */
async function change(git: Git, gitDirectory: string, commands: readonly string[]): Promise<void> {
  if (commands.length === 0) return;
  const args = [...LASTING_SETTINGS, 'update-ref', '--no-deref', '--stdin'];
  await git.run(gitDirectory, args, { input: `${commands.join('\n')}\n` });
}

async function apply(
  git: Git,
  gitDirectory: string,
  { clearings, updates, head, removals }: ReferencePlan,
): Promise<void> {
  await change(git, gitDirectory, clearings);
  await change(git, gitDirectory, updates);
  if (head !== null) await git.run(gitDirectory, ['symbolic-ref', 'HEAD', head]);
  await change(git, gitDirectory, removals);
}

/**
 * Sets references, but those that cannot be set.
 * @returns the commands that failed
 * @throws MirrorError `service.failed` when so many fail that the references are not to blame
 */
async function changeApart(git: Git, gitDirectory: string, commands: readonly string[]): Promise<string[]> {
  const failed: string[] = [];
  const parts: Array<readonly string[]> = [commands];
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    try {
      await change(git, gitDirectory, part);
    } catch (error) {
      if (part.length === 1) failed.push(...part);
      else parts.push(part.slice(0, part.length / 2), part.slice(part.length / 2));
      if (failed.length > MAX_REFUSED || failed.length === commands.length) throw error;
    }
  }
  return failed;
}

/** Applies the part of a plan that can be applied, and remembers what was refused, by name and object id. */
async function applyPart(
  git: Git,
  gitDirectory: string,
  { clearings, updates }: ReferencePlan,
  refused: Map<string, string>,
): Promise<void> {
  await change(git, gitDirectory, clearings);
  for (const command of await changeApart(git, gitDirectory, updates)) {
    const [, name = '', id = ''] = command.split(' ');
    // What they have replaced before it was fetched is refused for another reason: this fails then.
    await git.run(gitDirectory, ['cat-file', '-e', id]);
    refused.set(name, id);
  }
}

/**
 * Applies a plan, as far as that goes in this attempt.
 * @returns whether all of it is done
 */
async function carryOut(
  git: Git,
  gitDirectory: string,
  plan: ReferencePlan,
  { attempt, refused }: { readonly attempt: number; readonly refused: Map<string, string> },
): Promise<boolean> {
  try {
    await apply(git, gitDirectory, plan);
    return true;
  } catch (error) {
    if (attempt > ATTEMPTS) throw error;
    // What they had a moment ago may have been replaced before it was fetched; it may also be that a disk refuses a name.
    if (attempt === ATTEMPTS) await applyPart(git, gitDirectory, plan, refused);
    return false;
  }
}

/** The references to fetch, with the object ids that they had when they were asked for. */
function wantedOf({ wanted }: ReferencePlan, { ids }: References): Map<string, string> {
  return new Map(wanted.map((name) => [name, ids.get(name) ?? '']));
}

export interface PullOptions {
  /** Called when it turns out that there is something to fetch. */
  readonly onChange?: () => void;
  /** Called when something fails that may be this repository's own fault. */
  readonly onDoubt?: () => void;
  /** The references that this disk has refused so far, object id by full name; a pull adds to them. */
  readonly refused?: Map<string, string>;
  /** Most that all objects of the repository may take on disk, in bytes; null for no bound. */
  readonly maxBytes?: number | null;
  /** The last attempt that was too large; a pull sets it. */
  readonly oversize?: Oversize;
}

/** The outcome of a pull. */
export interface Pulled {
  /** Whether anything was different. */
  readonly isChanged: boolean;
  /** Full names of the references that cannot be had here. */
  readonly leftOut: readonly string[];
}

/**
 * Brings a bare repository to what another one holds now: all its references, and its choice of a default branch. One that
 * cannot be read changes nothing. What it has done is there after a power cut.
 * @throws RemoteError when the other one cannot be read, OversizeError where it is too large, DamagedError when this one cannot, MirrorError `service.failed` when git
 *   fails here
 */
export async function pull(
  git: Git,
  remote: Remote,
  gitDirectory: string,
  options: PullOptions = {},
): Promise<Pulled> {
  const { onChange = () => {}, onDoubt = () => {}, refused = new Map<string, string>() } = options;
  const { maxBytes = null, oversize = { last: null } } = options;
  for (let attempt = 1; ; attempt += 1) {
    const { leftOut, ...theirs } = leaveOut(await askRemote(git, remote), refused);
    const plan = planReferences(await ownReferences(git, gitDirectory), theirs);
    if (isInStep(plan)) return { isChanged: attempt > 1, leftOut };
    onChange();
    try {
      await download(git, remote, gitDirectory, { wanted: wantedOf(plan, theirs), maxBytes, oversize });
      const isDone = await carryOut(git, gitDirectory, plan, { attempt, refused });
      await syncFolders(gitDirectory);
      if (isDone) return { isChanged: true, leftOut };
    } catch (error) {
      if (!isTooLarge(error)) onDoubt();
      throw error;
    }
    if (attempt === ATTEMPTS) onDoubt();
  }
}
