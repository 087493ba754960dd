import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import type { Approval, Approvals } from '../plan/guard.ts';
import { targetKey } from '../upstream/listing.ts';
import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './links.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';

const approvalSchema = z.object({
  target: z.object({ repositoryId: z.string(), branch: z.string() }),
  subject: z.enum(['target', 'restored', 'files', 'deselected', 'moved', 'forgotten', 'service']),
  digest: z.string().nullable(),
});

/** An approval names a repository and a branch. */
const MAX_APPROVAL_BYTES = 64 * 1024;

function approvalFile(layout: DirectoryLayout, { target }: Approval): string {
  return join(layout.approvals, `${createHash('sha256').update(targetKey(target)).digest('hex')}.json`);
}

/**
 * Writes down that a person lets a held deletion through: one file a target, so that it can be done beside a running daemon
 * and outlives it.
 * @throws MirrorError `disk.*`
 */
export async function writeApproval(layout: DirectoryLayout, approval: Approval): Promise<void> {
  await onDisk('writing the approval', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.approvals)]);
    await ensureFolder(layout.approvals);
    await replaceFile(approvalFile(layout, approval), `${JSON.stringify(approval)}\n`, layout.approvals);
  });
}

/** Reads all approvals. One that cannot be understood counts as none. */
export async function readApprovals(layout: DirectoryLayout): Promise<Approvals> {
  return onDisk('reading the approvals', async () => {
    const approvals = new Map<string, Approval>();
    for (const name of (await unlessMissing(readdir(layout.approvals))) ?? []) {
      const approval = parse((await readOwnText(join(layout.approvals, name), MAX_APPROVAL_BYTES)) ?? '');
      // Another name is that of a file that was never finished: it would be withdrawn by none.
      const isFinished = approval !== null && join(layout.approvals, name) === approvalFile(layout, approval);
      if (isFinished) approvals.set(targetKey(approval.target), approval);
    }
    return approvals;
  });
}

/** Removes approvals. */
export async function removeApprovals(
  layout: DirectoryLayout,
  approvals: readonly Approval[],
): Promise<void> {
  await onDisk('removing approvals', async () => {
    for (const approval of approvals) await rm(approvalFile(layout, approval), { force: true });
  });
}

function parse(text: string): Approval | null {
  try {
    return approvalSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
