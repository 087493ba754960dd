import { createHash } from 'node:crypto';

import { CrowdedError, Places } from '../../lib/concurrency/places.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { partOf } from '../http/conditions.ts';
import type { Bytes, Content } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import type { Git, GitProcess } from './git.ts';
import { commitOfFolder, findObject } from './objects.ts';
import { type Branches, readBranches } from './refs.ts';

/** A zip without entries is its end record alone: 22 bytes. */
const EMPTY_ZIP = Buffer.concat([Buffer.from('PK\u0005\u0006', 'latin1'), Buffer.alloc(18)]);
/** Workbooks are compressed already; more effort would not make the archive smaller. */
const ZIP_EFFORT = '-1';

/** The entity tag of what an object of Git is sent as: strong, since an object never changes. */
function tagOf(objectId: string, way = ''): string {
  return `"${objectId}${way}"`;
}

/**
 * Gives what the bytes of an archive depend on besides its commit, as a short text that goes into entity tags.
 * @throws MirrorError `service.failed`
 */
export type ArchiveWay = () => Promise<string>;

/**
 * Finds out the way in which archives are made, once: the git program, with what it says of the libraries that it was built with, and
 * how it is asked. As long as it is the same, the same archive is made of a commit each time.
 */
export function createArchiveWay(git: Git): ArchiveWay {
  let way: Promise<string> | null = null;
  const find = async (): Promise<string> => {
    const version = await git.run(null, ['version', '--build-options']);
    return createHash('sha256').update(version).update(ZIP_EFFORT).digest('hex').slice(0, 12);
  };
  return () => {
    way ??= find().catch((error: unknown) => {
      way = null;
      throw error;
    });
    return way;
  };
}

function chooseCommit(branches: Branches, branch: string | null): string | null {
  const name = branch ?? branches.defaultBranch;
  const commitId = name === null ? undefined : branches.heads.get(name);
  if (commitId !== undefined) return commitId;
  if (branch === null && branches.heads.size === 0) return null;
  const what =
    branch === null ? `the default branch ${name ?? 'HEAD'} does not exist` : `there is no branch ${branch}`;
  throw new RequestError(404, 'branch_not_found', what);
}

/**
 * Gives the output of a git program.
 * @throws MirrorError `service.failed` when it does not end well
 */
async function* outputOf(start: () => GitProcess): Bytes {
  const { stdout, exit } = start();
  try {
    yield* stdout as AsyncIterable<Buffer>;
    const { code, complaint } = await exit;
    if (code !== 0) throw new MirrorError('service.failed', `git gave no whole content: ${complaint}`);
  } finally {
    // A pipe that nobody empties would keep the program, or what is left of it, from ever being done.
    stdout.destroy();
  }
}

/** Each program takes some megabytes, and keeps them for as long as its reader takes. */
const READERS_AT_ONCE = 64;
const READERS_WAITING = 256;

/**
 * Gives bytes that a program of its own makes, when there is a place for it.
 * @param open starts the program; called when it has a place, which is free again when its bytes have ended or are given up
 * @throws RequestError 503 when as many wait as may, and the reason of `signal`, before the first bytes
 */
export type Readers = (signal: AbortSignal, open: () => Bytes) => Bytes;

/** Makes a limit on how many read at once. */
export function createReaders(count = READERS_AT_ONCE, seats = READERS_WAITING): Readers {
  const places = new Places(count, seats);
  return async function* read(signal, open) {
    const leave = await places.take(signal).catch((error: unknown) => {
      if (!(error instanceof CrowdedError)) throw error;
      // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
      throw new RequestError(503, 'busy', 'too many are reading at the moment: try again soon');
    });
    try {
      yield* open();
    } finally {
      leave();
    }
  };
}

async function* nothingButAnEmptyZip(): Bytes {
  yield EMPTY_ZIP;
}

export interface ContentSource {
  readonly git: Git;
  /** Among whom each who reads takes a turn. */
  readonly readers: Readers;
  readonly archiveWay: ArchiveWay;
}

async function archiveOf(
  { git, readers, archiveWay }: ContentSource,
  gitDirectory: string,
  commitId: string,
): Promise<Content> {
  const args = ['archive', '--format=zip', ZIP_EFFORT, commitId];
  return {
    kind: 'archive',
    etag: tagOf(commitId, `-${await archiveWay()}`),
    // Git does not tell the length before it has packed everything.
    sizeBytes: null,
    open: (signal) => readers(signal, () => outputOf(() => git.start(gitDirectory, args, { signal }))),
  };
}

/**
 * Finds what stands at a path of a branch, with the bytes that were committed.
 * @throws RequestError 404 for a branch or path that does not exist
 */
export async function contentAt(
  source: ContentSource,
  gitDirectory: string,
  branch: string | null,
  path: string,
): Promise<Content> {
  const { git, readers } = source;
  const commitId = chooseCommit(await readBranches(git, gitDirectory), branch);
  if (commitId === null && path === '') {
    return { kind: 'archive', etag: tagOf('empty'), sizeBytes: null, open: nothingButAnEmptyZip };
  }
  if (commitId !== null && path === '') return archiveOf(source, gitDirectory, commitId);
  const object = commitId === null ? null : await findObject(git, gitDirectory, commitId, path);
  if (commitId !== null && object?.type === 'tree') {
    const folder = await commitOfFolder(git, gitDirectory, commitId, object.id);
    return archiveOf(source, gitDirectory, folder);
  }
  if (object?.type === 'blob') {
    const open = (signal: AbortSignal): Bytes =>
      readers(signal, () =>
        outputOf(() => git.start(gitDirectory, ['cat-file', 'blob', object.id], { signal })),
      );
    return {
      kind: 'file',
      etag: tagOf(object.id),
      sizeBytes: object.sizeBytes,
      open: (signal, range) => (range === undefined ? open(signal) : partOf(open(signal), range)),
    };
  }
  throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
}
