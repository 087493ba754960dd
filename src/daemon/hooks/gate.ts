import { changedFiles, changeLines } from '../../mirror/plan/changed-files.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { StagedState } from '../../mirror/pass/context.ts';
import { type CommandEnd, runCommand, withLine } from './command.ts';
import { hookEnvironment } from './environment.ts';
import type { HookCommand, HookSurroundings } from './ports.ts';

/** How often a command that runs counts as progress, in milliseconds: it has a time limit of its own. */
const BEAT_MS = 1000;

/** Shells end so when a program cannot be run, and above when a signal ended it (POSIX, 2.8.2 "Exit Status for Commands"). */
const FIRST_EXIT_CODE_OF_SHELLS = 126;

/**
 * Has the command before publishing look at a new state: exit code 0 lets it through.
 * @param onProgress called while the command runs
 * @throws MirrorError `publish.refused` for the exit codes 1 to 125, `hook.failed` for everything else, `pass.abandoned`
 */
export async function askGate(
  { places, environment, scrub }: HookSurroundings,
  command: HookCommand,
  { target, manifest, previous, folder }: StagedState,
  onProgress: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { repository, branch, fingerprint } = manifest;
  const variables = {
    MIRROR_HOOK: 'beforePublish',
    MIRROR_EVENT: 'staged',
    MIRROR_TARGET: target,
    MIRROR_REPOSITORY: repository.fullName,
    MIRROR_REPOSITORY_ID: repository.id,
    MIRROR_BRANCH: branch,
    MIRROR_DIRECTORY: places.directory,
    MIRROR_TREE: places.treeOf(target),
    MIRROR_MANIFEST: places.manifestOf(target),
    MIRROR_STAGE: folder,
    MIRROR_FINGERPRINT: fingerprint ?? '',
    MIRROR_PREVIOUS_FINGERPRINT: previous?.fingerprint ?? '',
    MIRROR_CHANGES: 'known',
  } as const;
  const beat = setInterval(onProgress, BEAT_MS);
  try {
    const end = await runCommand({
      ...command,
      cwd: folder,
      environment: hookEnvironment(environment, variables),
      input: changeLines(changedFiles(previous?.files ?? [], manifest.files)),
      signal,
    });
    const problem = problemOf(end, scrub);
    if (problem !== null) throw problem;
  } catch (error) {
    throw named(error, scrub);
  } finally {
    clearInterval(beat);
  }
}

function problemOf({ exitCode, lastLine }: CommandEnd, scrub: (text: string) => string): MirrorError | null {
  if (exitCode === 0) return null;
  if (exitCode >= FIRST_EXIT_CODE_OF_SHELLS)
    return new MirrorError('hook.failed', withLine(`It ended with exit code ${exitCode}`, lastLine));
  const sentence = `The command hooks.beforePublish refuses the new state (exit code ${exitCode})`;
  return new MirrorError('publish.refused', scrub(withLine(sentence, lastLine)), {
    hint: 'What is published stays. It is tried again when the version or the settings change, after an hour, or at once by `retry`.',
  });
}

/** A failure of the command as that of a target, the sentence of which does not name the command. */
function named(error: unknown, scrub: (text: string) => string): unknown {
  if (!(error instanceof MirrorError) || error.code !== 'hook.failed') return error;
  return new MirrorError('hook.failed', scrub(`The command hooks.beforePublish failed: ${error.message}`), {
    cause: error,
    hint: 'Nothing was published; it is tried again by itself. `config show` says which command it is.',
  });
}
