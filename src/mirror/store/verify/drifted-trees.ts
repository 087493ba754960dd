import { rm } from 'node:fs/promises';

import { z } from 'zod';

import { isTargetPath } from '../../../lib/paths/file-name.ts';
import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { replaceFile } from '../../../lib/disk/durable.ts';
import type { DirectoryLayout } from '../layout.ts';
import { readOwnText } from '../../../lib/disk/own-file.ts';

/** The trees that differ from their manifests, until they are put right. A note on disk tells the next process of them. */
export class DriftedTrees {
  readonly #layout: DirectoryLayout;
  readonly #checkDirectory: () => Promise<void>;
  readonly #waiting: Set<string>;
  readonly #inRepair = new Set<string>();

  /** @param waiting paths of trees that the next pass is to put right */
  constructor(layout: DirectoryLayout, checkDirectory: () => Promise<void>, waiting: Iterable<string>) {
    this.#layout = layout;
    this.#checkDirectory = checkDirectory;
    this.#waiting = new Set(waiting);
  }

  /** All that are not right yet, also those that pulls put right now. */
  paths(): string[] {
    return [...new Set([...this.#waiting, ...this.#inRepair])];
  }

  /** Whether the next pass is to put a tree right. */
  has(path: string): boolean {
    return this.#waiting.has(path);
  }

  /** Has the next pass put a tree right, also where a pull does: it may have looked at the tree before. */
  add(path: string): void {
    this.#waiting.add(path);
  }

  /** A tree was found to be as its manifest says. */
  delete(path: string): void {
    this.#waiting.delete(path);
  }

  /** A tree has another place. */
  move(from: string, to: string): void {
    if (this.#waiting.delete(from)) this.#waiting.add(to);
  }

  /** A pull puts a tree right, if that is to be done. @returns to be called at its end */
  beginRepair(path: string): (isRight: boolean) => void {
    if (!this.#waiting.delete(path)) return () => {};
    this.#inRepair.add(path);
    return (isRight) => {
      this.#inRepair.delete(path);
      if (!isRight) this.#waiting.add(path);
    };
  }

  /** Writes the note. @throws MirrorError `directory.replaced`, `disk.*` */
  async save(): Promise<void> {
    await this.#checkDirectory();
    await onDisk('noting what differs', () => writeDriftNote(this.#layout, this.paths()));
  }
}

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

/** Writes which trees are to be put right, if the note says anything else. */
export async function writeDriftNote(layout: DirectoryLayout, paths: readonly string[]): Promise<void> {
  const wanted = [...paths].sort();
  const present = await readDriftNote(layout);
  if (JSON.stringify(wanted) === JSON.stringify(present)) return;
  if (wanted.length === 0) await rm(layout.driftNote, { force: true });
  else await replaceFile(layout.driftNote, `${JSON.stringify(wanted)}\n`, layout.staging);
}
