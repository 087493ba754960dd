import type { Bytes, Conversations, GitProgram } from '../service/library.ts';
import { outputOf } from './contents.ts';
import { settleDefaultBranch } from './default-branch.ts';
import type { Git, GitProcess } from './git.ts';
import { LASTING_SETTINGS, syncFolders } from './lasting.ts';
import { presentDirectory } from './present.ts';
import type { Registry } from './registry.ts';

/**
 * What may be pushed, and how: branches and tags only, whole objects without known harm, not more than the limit. Three faults
 * that old tools left in many a history and that harm nobody are only told of (git-config(1), `receive.fsck.<msg-id>`).
 */
function receiveSettings(maxUploadBytes: number): string[] {
  const settings = [
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
  ];
  return [...LASTING_SETTINGS, ...settings.flatMap((setting) => ['-c', setting])];
}

/** The settings of a git client that this service understands (git-protocol(5), `GIT_PROTOCOL`); anything else is left out. */
function protocolEnvironment(protocol: string | null): Record<string, string> {
  return protocol !== null && /^[a-z0-9=:.-]{1,200}$/i.test(protocol) ? { GIT_PROTOCOL: protocol } : {};
}

function subcommandOf(program: GitProgram): string {
  return program.slice('git-'.length);
}

/**
 * Gives the output of a program that changes a repository. Its end is held back until everything is done: a client that has been
 * told sees what it pushed, also after a power cut.
 */
async function* outputThen(process: GitProcess, finish: () => Promise<void>): Bytes {
  let held: Uint8Array | undefined;
  for await (const chunk of outputOf(() => process)) {
    if (held !== undefined) yield held;
    held = chunk;
  }
  await finish();
  if (held !== undefined) yield held;
}

/**
 * Answers git clients from the repositories of a registry.
 * @param maxUploadBytes the greatest push
 */
export function createConversations(git: Git, registry: Registry, maxUploadBytes: number): Conversations {
  const start = (
    repositoryId: string,
    program: GitProgram,
    protocol: string | null,
    more: { readonly flags: readonly string[]; readonly signal: AbortSignal; readonly input?: Bytes },
  ): GitProcess => {
    const gitDirectory = presentDirectory(registry, repositoryId);
    const settings = program === 'git-receive-pack' ? receiveSettings(maxUploadBytes) : [];
    const args = [...settings, subcommandOf(program), '--stateless-rpc', ...more.flags, gitDirectory];
    return git.start(gitDirectory, args, {
      signal: more.signal,
      environment: protocolEnvironment(protocol),
      ...(more.input === undefined ? {} : { input: more.input }),
    });
  };

  async function* converse(
    ...[repositoryId, program, protocol, request, signal]: Parameters<Conversations['converse']>
  ): Bytes {
    const gitDirectory = presentDirectory(registry, repositoryId);
    const process = start(repositoryId, program, protocol, { flags: [], signal, input: request });
    try {
      yield* outputThen(process, async () => {
        // A client takes no answer before it has sent everything.
        const problem = await process.fed;
        if (problem !== null) throw problem;
        if (program !== 'git-receive-pack') return;
        await settleDefaultBranch(git, gitDirectory);
        await syncFolders(gitDirectory);
      });
    } catch (error) {
      throw (await process.fed) ?? error;
    }
  }

  return {
    advertise: (repositoryId, program, protocol, signal) =>
      outputOf(() => start(repositoryId, program, protocol, { flags: ['--http-backend-info-refs'], signal })),
    converse,
  };
}
