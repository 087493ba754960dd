import { createReadStream } from 'node:fs';
import { join } from 'node:path';

import type { Difference } from '../model/drift.ts';
import type { Manifest, ManifestFile } from '../model/manifest.ts';
import { readHistory } from './history.ts';
import { treePath } from './layout.ts';
import { readManifest } from './manifest-file.ts';
import type { Stage } from './stage.ts';
import type { MirrorStore } from './store.ts';

/**
 * Puts a published tree right without the service: from what of it is intact, and from the history.
 * @returns false when some bytes are to be had nowhere on this disk; then nothing was changed
 * @throws MirrorError `disk.*`
 */
export async function repairFromDisk(
  store: MirrorStore,
  path: string,
  signal: AbortSignal,
): Promise<boolean> {
  const manifest = await store.manifest(path);
  if (manifest === null) return false;
  const differences = await store.examine(path, manifest, 'bytes', signal);
  if (differences?.length === 0) return true;
  const suspects = suspectsOf(manifest, differences);
  const sources = await findSources(store, path, suspects, factsOnly(differences));
  if (suspects.some(({ sha256 }) => !sources.has(sha256))) return false;
  const stage = await store.stage(path);
  try {
    const written = new Map<string, ManifestFile>();
    for (const file of suspects) {
      const copy = await copyFrom(stage, file, sources.get(file.sha256) ?? []);
      if (copy === null) return false;
      written.set(file.path, copy);
    }
    const files = manifest.files.map((file) => written.get(file.path) ?? file);
    const rewritten = [...written.keys()];
    await store.publish(stage, path, { ...manifest, files }, { rewritten, isDamaged: true });
    return true;
  } finally {
    await stage.discard();
  }
}

/** The files whose published copy is not what the manifest says; all of them where the tree is gone. */
function suspectsOf({ files }: Manifest, differences: readonly Difference[] | null): readonly ManifestFile[] {
  if (differences === null) return files;
  const paths = new Set(differences.map(({ path }) => path));
  return files.filter(({ path }) => paths.has(path));
}

/** The files whose bytes are right, and only their time or mode is not. */
function factsOnly(differences: readonly Difference[] | null): ReadonlySet<string> {
  const found = (differences ?? []).filter(
    (each) => each.kind === 'modified' && each.what.every((what) => what === 'mtime' || what === 'mode'),
  );
  return new Set(found.map(({ path }) => path));
}

/** Where the bytes of files may be had, by their SHA-256; whether they really are there is seen when they are read. */
async function findSources(
  store: MirrorStore,
  path: string,
  wanted: readonly ManifestFile[],
  withRightBytes: ReadonlySet<string>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const digests = new Set(wanted.map(({ sha256 }) => sha256));
  const sources = new Map<string, string[]>();
  const add = (sha256: string, file: string): void => {
    const known = sources.get(sha256);
    if (known === undefined) sources.set(sha256, [file]);
    else known.push(file);
  };
  for (const file of wanted) {
    if (withRightBytes.has(file.path)) add(file.sha256, join(treePath(store.layout, path), file.path));
  }
  for (const entry of await readHistory(store.layout)) {
    if (entry.path !== path) continue;
    for (const file of (await readManifest(entry.manifest))?.files ?? []) {
      if (digests.has(file.sha256)) add(file.sha256, join(entry.tree, file.path));
    }
  }
  return sources;
}

async function copyFrom(
  stage: Stage,
  { path, mtimeMs, sha256, workbook }: ManifestFile,
  sources: readonly string[],
): Promise<ManifestFile | null> {
  for (const source of sources) {
    const copy = await stage.write(path, mtimeMs, createReadStream(source)).catch(() => null);
    if (copy?.sha256 === sha256) return { ...copy, ...(workbook === undefined ? {} : { workbook }) };
    await stage.drop(path);
  }
  return null;
}
