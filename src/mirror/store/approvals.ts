import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { type Approval, type Approvals, approvalSchema } from '../plan/guard.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './published-tree.ts';

/**
 * Approvals of held deletions, a small file each. An operator may give one while the daemon runs, also from another container or machine,
 * and they outlive it. A malformed or unfinished file approves nothing.
 */

/** Room for the names of a repository and a branch. */
const MAX_BYTES = 64 * 1024;

/** The file of an approval: a target may have characters that file names must not have. */
function approvalFile({ approvals }: DirectoryLayout, target: TargetId): string {
  return join(approvals, `${createHash('sha256').update(targetKey(target)).digest('hex')}.json`);
}

/** Approves a held deletion. @throws MirrorError `disk.*` */
export async function writeApproval(layout: DirectoryLayout, approval: Approval): Promise<void> {
  const { root, approvals } = layout;
  await onDisk('writing an approval', async () => {
    await refuseLinks(layout, [relative(root, approvals)]);
    await ensureFolder(approvals);
    await replaceFile(approvalFile(layout, approval.target), `${JSON.stringify(approval)}\n`, approvals);
  });
}

/** Reads all approvals. @throws MirrorError `disk.failed` */
export function readApprovals(layout: DirectoryLayout): Promise<Approvals> {
  return onDisk('reading approvals', async () => {
    const found = new Map<string, Approval>();
    for (const name of (await unlessMissing(readdir(layout.approvals))) ?? []) {
      const file = join(layout.approvals, name);
      const approval = parseApproval(await readOwnText(file, MAX_BYTES));
      // A file with another name is unfinished, and would never be removed.
      if (approval !== null && approvalFile(layout, approval.target) === file)
        found.set(targetKey(approval.target), approval);
    }
    return found;
  });
}

function parseApproval(text: string | null): Approval | null {
  try {
    return approvalSchema.parse(JSON.parse(text ?? ''));
  } catch {
    return null;
  }
}

/** Removes approvals. @throws MirrorError `disk.*` */
export async function removeApprovals(layout: DirectoryLayout, used: readonly Approval[]): Promise<void> {
  await onDisk('removing approvals', async () => {
    for (const { target } of used) await rm(approvalFile(layout, target), { force: true });
  });
}
