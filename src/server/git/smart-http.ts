import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { MirrorError } from '../../lib/errors/errors.ts';
import type { Bytes, Conversations, GitProgram } from '../http/library.ts';
import { outputOf, type Readers } from './git-contents.ts';
import { settleDefaultBranch } from './refs.ts';
import type { Git } from './git.ts';
import { type GitProcess, settingArguments, type StartOptions } from './git-process.ts';
import { LASTING_SETTINGS, syncFolders } from './bare.ts';
import { presentDirectory } from './registrar.ts';
import type { Registry } from './registry.ts';

/**
 * Rules for pushes: branches and tags only, whole objects without known harm, not more than the limit. Three faults
 * that old tools left in many a history and that harm nobody are only told of (git-config(1), `receive.fsck.<msg-id>`).
 */
function receiveSettings(maxUploadBytes: number): string[] {
  const settings = settingArguments(
    'receive.hideRefs=refs',
    'receive.hideRefs=!refs/heads',
    'receive.hideRefs=!refs/tags',
    // As it is anyway; said, git does not advise the client about settings of ours.
    'receive.denyDeleteCurrent=refuse',
    'receive.fsckObjects=true',
    'receive.fsck.badTimezone=warn',
    'receive.fsck.missingSpaceBeforeDate=warn',
    'receive.fsck.zeroPaddedFilemode=warn',
    `receive.maxInputSize=${maxUploadBytes}`,
    'receive.autogc=false',
  );
  return [...LASTING_SETTINGS, ...settings];
}

/** Clients may leave out what they do not need yet (git-clone(1), `--filter`). */
const SEND_SETTINGS = settingArguments('uploadpack.allowFilter=true');

/** Time for a push that broke off to clear away: what git has received of it may be much. */
const PUSH_GRACE_MS = 10_000;

/** The settings of a git client that this service understands (git-protocol(5), `GIT_PROTOCOL`); anything else is left out. */
function protocolEnvironment(protocol: string | null): Record<string, string> {
  return protocol !== null && /^[a-z0-9=:.-]{1,200}$/i.test(protocol) ? { GIT_PROTOCOL: protocol } : {};
}

/** Gives bytes, and holds their end back until something is done. */
async function* heldBack(bytes: Bytes, until: () => Promise<void>): Bytes {
  let held: Uint8Array | undefined;
  for await (const chunk of bytes) {
    if (held !== undefined) yield held;
    held = chunk;
  }
  await until();
  if (held !== undefined) yield held;
}

/** Gives the answer to a push, and lets the push end by itself when the client has gone: its output is read to the end. */
async function* outputOfPush({ stdout, exit }: GitProcess): Bytes {
  try {
    const chunks: AsyncIterable<Uint8Array> = stdout.iterator({ destroyOnReturn: false });
    yield* chunks;
    const { code, complaint } = await exit;
    if (code !== 0) throw new MirrorError('service.failed', `git did not take the push: ${complaint}`);
  } finally {
    stdout.resume();
  }
}

/** Waits until a client has sent everything: it takes no answer before. @throws what its request failed with */
async function taken({ fed }: GitProcess): Promise<void> {
  const problem = await fed;
  if (problem !== null) throw problem;
}

type Conversation = Parameters<Conversations['converse']>;

type StartProgram = ReturnType<typeof createStart>;

function createStart(git: Git, registry: Registry, maxUploadBytes: number) {
  return (
    repositoryId: string,
    program: GitProgram,
    protocol: string | null,
    options: Pick<StartOptions, 'signal' | 'input' | 'graceMs'>,
    flags: readonly string[] = [],
  ): GitProcess => {
    const gitDirectory = presentDirectory(registry, repositoryId);
    const settings = program === 'git-receive-pack' ? receiveSettings(maxUploadBytes) : SEND_SETTINGS;
    const args = [...settings, program.slice('git-'.length), '--stateless-rpc', ...flags, gitDirectory];
    return git.start(gitDirectory, args, { ...options, environment: protocolEnvironment(protocol) });
  };
}

async function* fetched(start: StartProgram, conversation: Conversation): Bytes {
  const [repositoryId, program, protocol, request, signal] = conversation;
  const process = start(repositoryId, program, protocol, { signal, input: request });
  try {
    yield* heldBack(
      outputOf(() => process),
      () => taken(process),
    );
  } catch (error) {
    throw (await process.fed) ?? error;
  }
}

/** Answers a push; the work that follows it does not depend on whether its client is still there. */
function createPushes(
  git: Git,
  registry: Registry,
  start: StartProgram,
): (conversation: Conversation) => Bytes {
  const quarantines = createQuarantines();

  async function settle({ exit }: GitProcess, gitDirectory: string): Promise<void> {
    const { code } = await exit;
    await quarantines.leave(gitDirectory, code === 0);
    await settleDefaultBranch(git, gitDirectory);
    await syncFolders(gitDirectory);
  }

  return async function* pushed([repositoryId, program, protocol, request, signal]) {
    const gitDirectory = presentDirectory(registry, repositoryId);
    await quarantines.enter(gitDirectory);
    let process: GitProcess;
    try {
      const options = { signal, input: request, graceMs: PUSH_GRACE_MS };
      process = start(repositoryId, program, protocol, options);
    } catch (error) {
      await quarantines.leave(gitDirectory, true);
      throw error;
    }
    const settled = settle(process, gitDirectory);
    // Thrown below, where it is awaited.
    settled.catch(() => undefined);
    try {
      yield* heldBack(outputOfPush(process), async () => {
        await taken(process);
        await settled;
      });
    } catch (error) {
      throw (await process.fed) ?? error;
    } finally {
      await settled.catch(() => undefined);
    }
  };
}

/**
 * Answers git clients from the repositories of a registry.
 * @param readers among whom those who fetch take their turn
 * @param maxUploadBytes the greatest push
 */
export function createConversations(
  git: Git,
  registry: Registry,
  readers: Readers,
  maxUploadBytes: number,
): Conversations {
  const start = createStart(git, registry, maxUploadBytes);
  const pushed = createPushes(git, registry, start);
  return {
    advertise: (repositoryId, program, protocol, signal) =>
      readers(signal, () =>
        outputOf(() => start(repositoryId, program, protocol, { signal }, ['--http-backend-info-refs'])),
      ),
    converse(...conversation) {
      const [, program, , , signal] = conversation;
      if (program === 'git-receive-pack') return pushed(conversation);
      return readers(signal, () => fetched(start, conversation));
    },
  };
}

/** Begins the name of the folder that holds the objects of a push until they are found good (git-receive-pack(1)). */
const QUARANTINE_PREFIX = 'tmp_objdir-incoming-';

interface Account {
  underWay: number;
  isClean: boolean;
  clearing: Promise<void> | null;
}

/**
 * Keeps account of the pushes under way, so that nothing is left of those that were ended. A service is the only one that pushes
 * into its repositories.
 */
function createQuarantines() {
  const accounts = new Map<string, Account>();
  return {
    /** To be called before a push into a bare repository begins. */
    async enter(gitDirectory: string): Promise<void> {
      let account = accounts.get(gitDirectory);
      while (account?.clearing) {
        await account.clearing;
        account = accounts.get(gitDirectory);
      }
      account ??= { underWay: 0, isClean: true, clearing: null };
      account.underWay += 1;
      accounts.set(gitDirectory, account);
    },
    /**
     * To be called once for each `enter`, when the push has ended.
     * @param isClean whether git ended by itself: then it has cleared away
     */
    async leave(gitDirectory: string, isClean: boolean): Promise<void> {
      const account = accounts.get(gitDirectory);
      if (account === undefined) return;
      account.underWay -= 1;
      account.isClean &&= isClean;
      // What belongs to which push cannot be told.
      if (account.underWay > 0) return;
      if (!account.isClean) {
        account.clearing = removeQuarantines(gitDirectory);
        await account.clearing;
      }
      accounts.delete(gitDirectory);
    },
  };
}

/** Removes every quarantine of a bare repository, as far as that is possible. */
async function removeQuarantines(gitDirectory: string): Promise<void> {
  const objects = join(gitDirectory, 'objects');
  const names = (await readdir(objects).catch(() => [])).filter((name) => name.startsWith(QUARANTINE_PREFIX));
  await Promise.all(
    names.map((name) =>
      // A program that git has started may take a moment longer to end, and write until then.
      rm(join(objects, name), { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }).catch(
        () => undefined,
      ),
    ),
  );
}
