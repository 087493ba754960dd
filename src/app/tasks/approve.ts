import type { Approval, HeldDeletion } from '../../mirror/plan/guard.ts';
import { WHOLE_DIRECTORY } from '../../mirror/plan/selection.ts';
import type { StoredPass } from '../../mirror/state/state.ts';
import { writeApproval } from '../../mirror/store/documents.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { readTargets, refuseMissing, withReader } from '../open-reader.ts';
import { type FileDifference, removedAt } from './file-differences.ts';
import type { TaskWork } from './task.ts';

/** A held deletion. */
export interface HeldTarget {
  /** As below `mirror/`; null for the directory itself, whose service may have changed. */
  readonly target: string | null;
  readonly subject: HeldDeletion['subject'] | 'service';
  /** The held deletion, if the record of a target does not contain it. */
  readonly message?: string;
  readonly deletions: number;
  readonly of: number;
  /** Number of files that would be deleted. */
  readonly fileCount: number;
  /** The first of them, sorted. */
  readonly files: readonly string[];
  /** The same files, with their entries in the manifest of the published tree. */
  readonly differences: readonly FileDifference[];
  /** Approves exactly this deletion: the request of the task `approve`. */
  readonly approval: Approval;
}

/** Lists the held deletions. @throws MirrorError `directory.unusable`, `disk.*`, `state.unavailable` */
export function listHeld({ settings, emit }: TaskWork): Promise<readonly HeldTarget[]> {
  const ofDirectory = settings.ofDirectory();
  return withReader(ofDirectory, emit, async (reader) => {
    const { statuses, ids } = await readTargets(ofDirectory, reader);
    const found: HeldTarget[] = heldAsWhole(await reader.state.lastPass());
    for (const { target, held } of statuses) {
      const id = ids.get(target);
      if (held === null || id === undefined) continue;
      const { subject, digest, deletions, of, first: files } = held;
      const manifest = files.length === 0 ? null : await publishedManifest(reader.store.layout, target);
      const differences = removedAt(manifest?.files ?? [], files);
      const fileCount = subject === 'files' ? deletions : (manifest?.files.length ?? 0);
      const approval = { target: id, subject, digest };
      found.push({ target, subject, deletions, of, fileCount, files, differences, approval });
    }
    return found;
  });
}

/** The directory itself, if the last pass was held because the service has changed. */
function heldAsWhole(lastPass: StoredPass | null): HeldTarget[] {
  if (lastPass?.failure?.code !== 'directory.other_service') return [];
  const { message } = lastPass.failure;
  const approval = { target: WHOLE_DIRECTORY, subject: 'service', digest: null } as const;
  const nothing = { deletions: 0, of: 0, fileCount: 0, files: [], differences: [] };
  return [{ target: null, subject: 'service', message, ...nothing, approval }];
}

/** Approves held deletions, once: the next pass carries them out. @throws MirrorError `directory.unusable`, `disk.*` */
export async function approve(
  { settings, isDaemon }: TaskWork,
  { approvals }: { readonly approvals: readonly Approval[] },
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
