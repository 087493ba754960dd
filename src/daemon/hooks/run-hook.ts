import { lstat } from 'node:fs/promises';

import { changeLines, type FileChange } from '../../mirror/plan/changed-files.ts';
import type { DueHook } from '../../mirror/plan/due-hooks.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { runCommand, withLine } from './command.ts';
import { hookEnvironment } from './environment.ts';
import type { HookCommand, HookSurroundings } from './ports.ts';

/**
 * Runs the command after publishing for a target.
 * @param changes the changed files; null where they are not known
 * @returns how long it took, in milliseconds
 * @throws MirrorError `hook.failed`, `pass.abandoned`
 */
export async function tellTree(
  { places, environment, scrub }: HookSurroundings,
  command: HookCommand,
  due: DueHook,
  changes: readonly FileChange[] | null,
  signal: AbortSignal,
): Promise<number> {
  const { target, tree, movedFrom, before } = due;
  const treePath = places.treeOf(target);
  const variables = {
    MIRROR_HOOK: 'afterPublish',
    MIRROR_EVENT: due.event,
    MIRROR_TARGET: target,
    MIRROR_REPOSITORY: tree.repository,
    MIRROR_REPOSITORY_ID: tree.repositoryId,
    MIRROR_BRANCH: tree.branch,
    MIRROR_DIRECTORY: places.directory,
    MIRROR_TREE: treePath,
    MIRROR_MANIFEST: places.manifestOf(target),
    MIRROR_FINGERPRINT: due.event === 'retired' ? '' : (tree.fingerprint ?? ''),
    MIRROR_PREVIOUS_FINGERPRINT: before?.fingerprint ?? '',
    MIRROR_CHANGES: changes === null ? 'unknown' : 'known',
    ...(movedFrom === null ? {} : { MIRROR_MOVED_FROM: movedFrom }),
  } as const;
  const { exitCode, lastLine, durationMs } = await runCommand({
    ...command,
    cwd: due.event !== 'retired' && (await isFolder(treePath)) ? treePath : places.directory,
    environment: hookEnvironment(environment, variables),
    input: changeLines(changes ?? []),
    signal,
  });
  if (exitCode === 0) return durationMs;
  throw new MirrorError('hook.failed', scrub(withLine(`It ended with exit code ${exitCode}`, lastLine)), {
    hint: 'It is run again by itself.',
  });
}

async function isFolder(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
