import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import type { Approval, Approvals } from '../plan/guard.ts';
import { targetKey } from '../upstream/listing.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './published-tree.ts';

/**
 * Requests of people to the process that works in a directory, a small file each: approvals of held deletions, targets to retry now, and
 * passes to make now. They can be made beside a running daemon, also from another container or machine, and outlive it. A file that
 * cannot be understood, or that was never finished, requests nothing.
 */

/** Room for the names of a repository and a branch, and for the numbers of a pass. */
const MAX_BYTES = 64 * 1024;

const approvalSchema = z.object({
  target: z.object({ repositoryId: z.string(), branch: z.string() }),
  subject: z.enum(['target', 'restored', 'files', 'deselected', 'moved', 'forgotten', 'service']),
  digest: z.string().nullable(),
});

/** Approves a held deletion. @throws MirrorError `disk.*` */
export async function writeApproval(layout: DirectoryLayout, approval: Approval): Promise<void> {
  await writeRequest(layout, layout.approvals, targetKey(approval.target), approval);
}

/** Reads all approvals. @throws MirrorError `disk.failed` */
export async function readApprovals({ approvals }: DirectoryLayout): Promise<Approvals> {
  const found = await readRequests(approvals, approvalSchema, ({ target }) => targetKey(target));
  return new Map(found.map((approval) => [targetKey(approval.target), approval]));
}

/** Removes approvals. @throws MirrorError `disk.*` */
export async function removeApprovals(
  { approvals }: DirectoryLayout,
  used: readonly Approval[],
): Promise<void> {
  await removeRequests(
    approvals,
    used.map(({ target }) => targetKey(target)),
  );
}

/** The file of the request with a key, which may have characters that no file name has. */
function requestFile(folder: string, key: string): string {
  return join(folder, `${createHash('sha256').update(key).digest('hex')}.json`);
}

async function writeRequest(
  layout: DirectoryLayout,
  folder: string,
  key: string,
  request: object,
): Promise<void> {
  await onDisk('writing a request', async () => {
    await prepareFolder(layout, folder);
    await replaceFile(requestFile(folder, key), `${JSON.stringify(request)}\n`, folder);
  });
}

async function readRequests<T>(
  folder: string,
  schema: z.ZodType<T>,
  keyOf: (request: T) => string,
): Promise<T[]> {
  return onDisk('reading requests', async () => {
    const requests: T[] = [];
    for (const name of (await unlessMissing(readdir(folder))) ?? []) {
      const file = join(folder, name);
      const request = parse(schema, await readOwnText(file, MAX_BYTES));
      // A file with another name was never finished, and would never be removed.
      if (request !== null && requestFile(folder, keyOf(request)) === file) requests.push(request);
    }
    return requests;
  });
}

async function removeRequests(folder: string, keys: Iterable<string>): Promise<void> {
  await onDisk('removing requests', async () => {
    for (const key of keys) await rm(requestFile(folder, key), { force: true });
  });
}

async function prepareFolder(layout: DirectoryLayout, folder: string): Promise<void> {
  await refuseLinks(layout, [relative(layout.root, folder)]);
  await ensureFolder(folder);
}

/** Parses a document; null where it has another form. */
function parse<T>(schema: z.ZodType<T>, text: string | null): T | null {
  try {
    return schema.parse(JSON.parse(text ?? ''));
  } catch {
    return null;
  }
}
