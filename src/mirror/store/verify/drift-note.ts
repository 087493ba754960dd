import { rm } from 'node:fs/promises';

import { z } from 'zod';

import { isTargetPath } from '../../../lib/paths/file-name.ts';
import { replaceFile } from '../../../lib/disk/durable.ts';
import type { DirectoryLayout } from '../layout.ts';
import { readOwnText } from '../../../lib/disk/own-file.ts';

const noteSchema = z.array(z.string().refine(isTargetPath));

/** Room for the names of a million targets. */
const MAX_NOTE_BYTES = 256 * 1024 ** 2;

/** Reads which trees are to be put right; none where there is no note, or none that can be understood. */
export async function readDriftNote(layout: DirectoryLayout): Promise<readonly string[]> {
  const text = (await readOwnText(layout.driftNote, MAX_NOTE_BYTES)) ?? '[]';
  try {
    return noteSchema.parse(JSON.parse(text));
  } catch {
    return [];
  }
}

/** Writes which trees are to be put right, if that is not what the note says already. */
export async function writeDriftNote(layout: DirectoryLayout, paths: readonly string[]): Promise<void> {
  const wanted = [...paths].sort();
  const present = await readDriftNote(layout);
  if (JSON.stringify(wanted) === JSON.stringify(present)) return;
  if (wanted.length === 0) await rm(layout.driftNote, { force: true });
  else await replaceFile(layout.driftNote, `${JSON.stringify(wanted)}\n`, layout.staging);
}
