import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

import { withOpen } from '../../lib/disk/read.ts';
import { againWhileStale } from '../../lib/disk/stale.ts';
import { onDisk, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { manifestStamp } from './inventory.ts';
import { type DirectoryLayout, manifestPath } from './layout.ts';
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

/** A manifest as it is on disk now. */
export interface ManifestOnDisk {
  /** Changes with every replacement of the file. */
  readonly stamp: string;
  /** Null where it cannot be understood or read; then `problem` says why. */
  readonly manifest: Manifest | null;
  readonly problem: string | null;
}

/** Reads a target's manifest; null where there is none. The stamp is never younger than what was read. */
export async function readStampedManifest(
  layout: DirectoryLayout,
  path: string,
): Promise<ManifestOnDisk | null> {
  const file = manifestPath(layout, path);
  const stamp = await manifestStamp(layout, path);
  if (stamp === null) return null;
  try {
    const manifest = await readManifest(file);
    if (manifest !== null) return { stamp, manifest, problem: null };
    const problem = await manifestProblem(file);
    const isSame = (await manifestStamp(layout, path)) === stamp;
    if (problem !== null && isSame) return { stamp, manifest, problem };
  } catch (error) {
    return { stamp, manifest: null, problem: systemCode(error) ?? 'unknown error' };
  }
  // It was replaced or removed just now.
  return readStampedManifest(layout, path);
}

/** The problem with a manifest on disk, as a sentence without its end; null where there is none. */
export async function manifestProblem(path: string): Promise<string | null> {
  const read = (): Promise<Buffer> => withOpen(path, constants.O_RDONLY, (handle) => handle.readFile());
  const text = await againWhileStale(() => unlessMissing(read()));
  if (text === null) return 'it is not there';
  const understood = understandManifest(text);
  return typeof understood === 'string' ? understood : null;
}

/** The manifest of a published tree; null where there is none, or none that can be understood. @throws MirrorError `disk.*` */
export function publishedManifest(layout: DirectoryLayout, target: string): Promise<Manifest | null> {
  return onDisk('reading a manifest', () => readManifest(manifestPath(layout, target)));
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
