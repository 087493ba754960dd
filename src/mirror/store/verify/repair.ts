import { createReadStream } from 'node:fs';

import { type Difference, trustOf } from './drift.ts';
import type { Manifest, ManifestFile } from '../manifest.ts';
import { findCopies } from '../history/copies.ts';
import type { MirrorStore } from '../store.ts';

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
  const findCopy = await findCopies(store.layout, path);
  const copies = new Map<string, string>();
  for (const { sha256 } of suspects) {
    const copy = copies.get(sha256) ?? (await findCopy(sha256));
    if (copy === null) return false;
    copies.set(sha256, copy);
  }
  const stage = await store.stage(path);
  try {
    const written = new Map<string, ManifestFile>();
    for (const { workbook, ...file } of suspects) {
      const source = createReadStream(copies.get(file.sha256) ?? '');
      const copy = await stage.write(file.path, file.mtimeMs, source);
      if (copy.sha256 !== file.sha256) return false;
      written.set(file.path, { ...copy, ...(workbook === undefined ? {} : { workbook }) });
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
  const isTrusted = trustOf(differences);
  return files.filter(({ path }) => !isTrusted(path));
}
