import { createReadStream } from 'node:fs';

import { type Difference, trustOf } from './drift.ts';
import type { Manifest, ManifestFile } from '../manifest.ts';
import { findCopies } from '../history/history.ts';
import { publishedManifest } from '../inventory.ts';
import { examinePublished } from './examine.ts';
import type { MirrorStore } from '../disk.ts';
import { publishStage } from '../publish/publish.ts';
import { discardStage, stageFile, stageOn } from '../publish/stage.ts';

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
  const manifest = await publishedManifest(store.layout, path);
  if (manifest === null) return false;
  const { isGone, differences } = await examinePublished(store.layout, path, manifest.files, {
    depth: 'bytes',
    signal,
    onBytes: store.onProgress,
  });
  if (!isGone && differences.length === 0) return true;
  const suspects = isGone ? manifest.files : suspectsOf(manifest, differences);
  const findCopy = await findCopies(store.layout, path);
  const copies = new Map<string, string>();
  for (const { sha256 } of suspects) {
    const copy = copies.get(sha256) ?? (await findCopy(sha256));
    if (copy === null) return false;
    copies.set(sha256, copy);
  }
  const stage = await stageOn(store, path);
  try {
    const written = new Map<string, ManifestFile>();
    for (const { workbook, ...file } of suspects) {
      const source = createReadStream(copies.get(file.sha256) ?? '');
      const copy = await stageFile(stage, file.path, file.mtimeMs, source, store.onProgress);
      if (copy.sha256 !== file.sha256) return false;
      written.set(file.path, { ...copy, ...(workbook === undefined ? {} : { workbook }) });
    }
    const files = manifest.files.map((file) => written.get(file.path) ?? file);
    const rewritten = [...written.keys()];
    await publishStage(store, stage, path, { ...manifest, files }, { rewritten, isDamaged: true });
    return true;
  } finally {
    await discardStage(store, stage);
  }
}

/** The files whose published copy is not what the manifest says. */
function suspectsOf({ files }: Manifest, differences: readonly Difference[]): readonly ManifestFile[] {
  const isTrusted = trustOf(differences);
  return files.filter(({ path }) => !isTrusted(path));
}
