import { createInventory, manifestPaths, readStampedManifest } from '../../mirror/store/inventory.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { checkTargetList } from '../../mirror/store/target-list.ts';

/** A target with its manifest. */
export interface ReadManifest {
  /** As below `mirror/`. */
  readonly path: string;
  readonly manifest: Manifest;
}

/** Something that keeps a target from being read, or from being missed: a sentence. */
export interface ManifestProblem {
  readonly problem: string;
}

/**
 * Reads the manifests of a whole directory one after the other, of all instances that share it, also beside a running daemon: those
 * that are new, or have another name, by the end are read then. Of one that cannot be read, or that is lost, it gives the problem
 * instead. Holds one manifest at a time.
 * @throws MirrorError `disk.failed`, and the reason of `signal`
 */
export async function* everyManifest(
  layout: DirectoryLayout,
  signal: AbortSignal,
): AsyncGenerator<ReadManifest | ManifestProblem, void> {
  const seen = new Set<string>();
  async function* unseen(): AsyncGenerator<ReadManifest | ManifestProblem, void> {
    for (const path of await manifestPaths(layout)) {
      signal.throwIfAborted();
      const found = seen.has(path) ? null : await readStampedManifest(layout, path);
      if (found === null) continue;
      seen.add(path);
      const { manifest } = found;
      if (manifest !== null) yield { path, manifest };
      else yield { problem: `The manifest of ${path} cannot be used: ${found.problem ?? 'unknown'}.` };
    }
  }
  yield* unseen();
  const { inventoryProblem, lost } = await checkTargetList({
    layout,
    inventory: createInventory(layout),
    now: Date.now,
  });
  yield* unseen();
  for (const { path } of lost)
    if (!seen.has(path))
      yield { problem: `${path} is lost: inventory.json names it, and it has no manifest.` };
  if (inventoryProblem !== null)
    yield { problem: `inventory.json cannot be used: ${inventoryProblem}; a target may be lost.` };
}
