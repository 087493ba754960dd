import { WHOLE_DIRECTORY } from '../../mirror/plan/selection.ts';
import type { StoredPass } from '../../mirror/state/state.ts';
import { writeApproval } from '../../mirror/store/documents.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { readTargets, refuseMissing, withReader } from '../open-reader.ts';
import { fileDifferences } from './file-differences.ts';
import type { RequestOf } from './requests.ts';
import type { TaskWork } from './task.ts';

/** A held deletion; that of the directory itself, whose service may have changed, has no target and its own message. */
export type HeldTarget = Awaited<ReturnType<typeof listHeld>>[number];

/** Lists the held deletions. @throws MirrorError `directory.unusable`, `disk.*`, `state.unavailable` */
export function listHeld({ settings, emit }: TaskWork) {
  const ofDirectory = settings.ofDirectory();
  return withReader(ofDirectory, emit, async (reader) => {
    const { statuses } = await readTargets(ofDirectory, reader);
    const found = [];
    for (const { target, repositoryId, branch, held } of statuses) {
      if (held === null) continue;
      const { subject, digest, deletions, of, first: files } = held;
      const manifest = files.length === 0 ? null : await publishedManifest(reader.store.layout, target);
      found.push({
        target,
        subject,
        deletions,
        of,
        /** Number of files that would be deleted. */
        fileCount: subject === 'files' ? deletions : (manifest?.files.length ?? 0),
        /** The first of them, sorted. */
        files,
        /** The same files, with their facts from the manifest of the published tree. */
        differences: fileDifferences(manifest?.files.filter(({ path }) => files.includes(path)) ?? [], []),
        /** Approves exactly this deletion: the request of the task `approve`. */
        approval: { target: { repositoryId, branch }, subject, digest },
      });
    }
    return [...heldAsWhole(await reader.state.lastPass()), ...found];
  });
}

/** The directory itself, if the last pass was held because the service has changed. */
function heldAsWhole(lastPass: StoredPass | null) {
  if (lastPass?.failure?.code !== 'directory.other_service') return [];
  const { message } = lastPass.failure;
  const approval = { target: WHOLE_DIRECTORY, subject: 'service', digest: null } as const;
  const nothing = { deletions: 0, of: 0, fileCount: 0, files: [], differences: [] };
  return [{ target: null, subject: 'service' as const, message, ...nothing, approval }];
}

/** Approves held deletions, once: the next pass carries them out. @throws MirrorError `directory.unusable`, `disk.*` */
export async function approve(
  { settings, isDaemon }: TaskWork,
  { approvals }: RequestOf<'approve'>,
): Promise<{ readonly approved: number }> {
  const { directory, shard } = settings.ofDirectory();
  await refuseMissing(directory);
  // A program that uses the socket may send no name.
  const unnamed = { approvedBy: 'an unknown user' };
  const given = { approvedAtMs: Date.now(), isByWord: isDaemon };
  for (const approval of approvals)
    await writeApproval(layoutOf(directory, shard), { ...unnamed, ...approval, ...given });
  return { approved: approvals.length };
}
