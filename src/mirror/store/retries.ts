import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './links.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';

/** Targets that a person wants tried at once, one file each: so that it can be asked beside a running daemon. */

const requestSchema = z.object({ target: z.string().refine(isTargetPath) });

const MAX_REQUEST_BYTES = 64 * 1024;

function requestFile({ retries }: DirectoryLayout, target: string): string {
  return join(retries, `${createHash('sha256').update(target).digest('hex')}.json`);
}

/** Asks for a target to be tried at once. @param target as below `mirror/`. @throws MirrorError `disk.*` */
export async function requestRetry(layout: DirectoryLayout, target: string): Promise<void> {
  await onDisk('asking for a retry', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.retries)]);
    await ensureFolder(layout.retries);
    await replaceFile(requestFile(layout, target), `${JSON.stringify({ target })}\n`, layout.retries);
  });
}

/** The targets that are to be tried at once. What cannot be understood asks for nothing. @throws MirrorError `disk.failed` */
export async function readRetries(layout: DirectoryLayout): Promise<ReadonlySet<string>> {
  return onDisk('reading what is to be retried', async () => {
    const targets = new Set<string>();
    for (const name of (await unlessMissing(readdir(layout.retries))) ?? []) {
      const file = join(layout.retries, name);
      const target = parse((await readOwnText(file, MAX_REQUEST_BYTES)) ?? '');
      // Another name is that of a file that was never finished.
      if (target !== null && requestFile(layout, target) === file) targets.add(target);
    }
    return targets;
  });
}

/** Takes requests back. @throws MirrorError `disk.*` */
export async function removeRetries(layout: DirectoryLayout, targets: Iterable<string>): Promise<void> {
  await onDisk('taking back what was retried', async () => {
    for (const target of targets) await rm(requestFile(layout, target), { force: true });
  });
}

function parse(text: string): string | null {
  try {
    return requestSchema.parse(JSON.parse(text)).target;
  } catch {
    return null;
  }
}
