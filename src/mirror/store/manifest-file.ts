import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

import { withOpen } from '../../lib/disk/read.ts';
import { againWhileStale } from '../../lib/disk/stale.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import type { Manifest } from './manifest.ts';
import { parseManifest, understandManifest } from './manifest-text.ts';

/** A manifest that somebody may still be using. */
interface Recent {
  /** Tells one state of the file from the next. */
  readonly stamp: string;
  readonly manifest: WeakRef<Manifest>;
}

/** How many of them are known. */
const MOST_RECENT = 64;

/** The manifests that were read last, by their paths: while one is still in use, nobody else has to read it again. */
const recent = new Map<string, Recent>();

/** The problem with a manifest on disk, as a sentence without its end; null where there is none. */
export async function manifestProblem(path: string): Promise<string | null> {
  const read = (): Promise<Buffer> => withOpen(path, constants.O_RDONLY, (handle) => handle.readFile());
  const text = await againWhileStale(() => unlessMissing(read()));
  if (text === null) return 'it is not there';
  const understood = understandManifest(text);
  return typeof understood === 'string' ? understood : null;
}

/** Reads a manifest from disk; null where there is none, or none that can be understood. */
export function readManifest(path: string): Promise<Manifest | null> {
  const read = (): Promise<Manifest | null> =>
    withOpen(path, constants.O_RDONLY, (handle) => readFrom(path, handle));
  return againWhileStale(() => unlessMissing(read()));
}

async function readFrom(path: string, handle: FileHandle): Promise<Manifest | null> {
  // A manifest is replaced, never written into: what is read through one handle is one state.
  const stamp = await stampOf(handle);
  const known = recent.get(path);
  const before = known?.stamp === stamp ? known.manifest.deref() : undefined;
  if (before !== undefined) return before;
  const manifest = parseManifest(await handle.readFile());
  remember(path, stamp, manifest);
  return manifest;
}

async function stampOf(handle: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

function remember(path: string, stamp: string, manifest: Manifest | null): void {
  recent.delete(path);
  if (manifest === null) return;
  recent.set(path, { stamp, manifest: new WeakRef(manifest) });
  const [oldest] = recent.keys();
  if (recent.size > MOST_RECENT && oldest !== undefined) recent.delete(oldest);
}
