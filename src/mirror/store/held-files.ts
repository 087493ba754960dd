import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { digestOfPaths } from '../plan/guard.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import type { DirectoryLayout } from './layout.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';

/**
 * The files that a held deletion of files is about, all of them: one list a target. The record of a target has the first of them and
 * their digest, by which a list is known to be whole.
 */

const pathsSchema = z.array(z.string());

/** Room for a million paths. */
const MAX_LIST_BYTES = 1024 ** 3;

function listName(target: TargetId): string {
  return `${createHash('sha256').update(targetKey(target)).digest('hex')}.json`;
}

/** Writes the list of a target. @param paths sorted. @throws MirrorError `disk.*` */
export async function writeHeldFiles(
  { heldFiles, staging }: DirectoryLayout,
  target: TargetId,
  paths: readonly string[],
): Promise<void> {
  await onDisk('writing down what a held deletion is about', async () => {
    await ensureFolder(heldFiles);
    await replaceFile(join(heldFiles, listName(target)), JSON.stringify(paths), staging);
  });
}

/** Reads the list of a target. @param digest of the deletion that is held. @returns null where it is not there */
export async function readHeldFiles(
  { heldFiles }: DirectoryLayout,
  target: TargetId,
  digest: string,
): Promise<readonly string[] | null> {
  try {
    const text = (await readOwnText(join(heldFiles, listName(target)), MAX_LIST_BYTES)) ?? '';
    const paths = pathsSchema.parse(JSON.parse(text));
    return digestOfPaths(paths) === digest ? paths : null;
  } catch {
    return null;
  }
}

/** Removes the list of a target, if there is one. @throws MirrorError `disk.*` */
export async function removeHeldFiles({ heldFiles }: DirectoryLayout, target: TargetId): Promise<void> {
  await onDisk('removing what a held deletion was about', () =>
    rm(join(heldFiles, listName(target)), { force: true }),
  );
}
