import { lstat } from 'node:fs/promises';

import { type HookCommand, hookEnvironment, type HookSurroundings } from '../../app/command-hooks.ts';
import { changeLines, type FileChange } from '../../app/published-changes.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { runCommand, withLine } from '../../lib/process/command.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import type { DueHook } from './due-hooks.ts';

/**
 * Runs the command after publishing for a target.
 * @param changes the changed files; null if unknown
 * @returns how long it took, in milliseconds
 * @throws MirrorError `hook.failed`, `pass.abandoned`
 */
export async function tellTree(
  { layout, scrub: masked }: HookSurroundings,
  command: HookCommand,
  { target, tree, event, movedFrom, before }: DueHook,
  changes: readonly FileChange[] | null,
  signal: AbortSignal,
): Promise<number> {
  // The real path, not the link: so the command sees one state while it runs, up to `readerGrace`.
  const folder = publishedTree(layout, target);
  const { exitCode, lastLine, durationMs } = await runCommand({
    ...command,
    cwd: event !== 'retired' && (await isFolder(folder)) ? folder : layout.root,
    environment: hookEnvironment(process.env, layout, target, tree, {
      MIRROR_HOOK: 'afterPublish',
      MIRROR_EVENT: event,
      MIRROR_FINGERPRINT: event === 'retired' ? '' : (tree.fingerprint ?? ''),
      MIRROR_PREVIOUS_FINGERPRINT: before?.fingerprint ?? '',
      MIRROR_CHANGES: changes === null ? 'unknown' : 'known',
      ...(movedFrom === null ? {} : { MIRROR_MOVED_FROM: movedFrom }),
    }),
    input: changeLines(changes ?? []),
    signal,
  });
  if (exitCode === 0) return durationMs;
  throw new MirrorError('hook.failed', masked(withLine(`It ended with exit code ${exitCode}`, lastLine)), {
    hint: 'Run it by hand to see what it prints.',
  });
}

async function isFolder(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
