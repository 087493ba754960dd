import { toMirrorError } from '../lib/errors/errors.ts';
import {
  treeKey,
  type DriftNote,
  type Published,
  type TargetRecord,
  targetOf,
} from '../mirror/plan/record.ts';
import type { State } from '../mirror/state/state.ts';
import { keepDirectoryId } from '../mirror/store/directory.ts';
import type { MirrorStore } from '../mirror/store/disk.ts';
import { publishedManifest } from '../mirror/store/inventory.ts';
import { type Difference, examineWithManifest, summariseDrift } from '../mirror/store/verify/examine.ts';

/** The trees to compare, and the state that stores notes about them. */
interface DriftParts {
  readonly store: Pick<MirrorStore, 'layout'>;
  readonly state: Pick<State, 'saveDrift'>;
}

/**
 * Records whether a published tree differs from its manifest. A target without a manifest has no such
 * note. A note that cannot be saved is lost: the next comparison of the tree finds the difference again.
 * @param path of the target, as below `mirror/`
 * @param note null if the tree is right
 * @returns false if the note could not be saved
 * @throws MirrorError `disk.failed`
 */
export async function noteDrift(
  { store, state }: DriftParts,
  path: string,
  note: DriftNote | null,
): Promise<boolean> {
  const manifest = await publishedManifest(store.layout, path);
  if (manifest === null) return true;
  return state.saveDrift(targetOf(manifest), path, note);
}

/**
 * Compares trees that may be from a backup with their manifests, and records differing ones for the next pass to repair: a backup taken
 * during a publish may contain a tree and a manifest that do not match. In a copied or restored directory these are all, and only then
 * it gets its id; if a note cannot be saved, it stays without one, and the next opening compares again. Elsewhere they are the trees
 * whose manifest is not the recorded file, unless their last publish must still be completed.
 * @param records by {@link targetKey}
 * @param onScanned receives the progress
 * @throws MirrorError `directory.*`, `disk.*`
 */
export async function noteRestored(
  parts: { readonly store: MirrorStore; readonly state: Pick<State, 'saveDrift'> },
  records: ReadonlyMap<string, Pick<TargetRecord, 'tree'>>,
  nowMs: number,
  onScanned: (doneTargets: number, targets: number) => void,
): Promise<void> {
  const { store } = parts;
  const { published, trees } = await store.inventory.read();
  const isRestored = (each: Published): boolean => {
    const recorded = records.get(treeKey(each))?.tree ?? null;
    const isOther = recorded !== null && recorded.stamp !== trees.get(each.path)?.stamp;
    return store.isNew || (isOther && !store.unfinished.has(each.path));
  };
  const restored = published.filter(isRestored);
  const options = { depth: 'facts', signal: new AbortController().signal } as const;
  let areNoted = true;
  for (const [index, { path }] of restored.entries()) {
    onScanned(index, restored.length);
    // A tree that cannot be examined differs, too.
    const differences = await examineWithManifest(store.layout, path, options).then(
      (examined) => examined?.differences ?? [],
      (error): readonly Difference[] => [
        { path: '.', kind: 'unreadable', problem: toMirrorError(error).message },
      ],
    );
    if (differences.length > 0) areNoted = (await noteForRepair(parts, path, differences, nowMs)) && areNoted;
  }
  if (restored.length > 0) onScanned(restored.length, restored.length);
  if (areNoted && store.isNew) await keepDirectoryId(store);
}

/** Makes the next pass repair a tree. @returns as {@link noteDrift} @throws MirrorError `disk.failed` */
export function noteForRepair(
  parts: DriftParts,
  path: string,
  differences: readonly Difference[],
  nowMs: number,
): Promise<boolean> {
  return noteDrift(parts, path, { ...summariseDrift(differences), sinceMs: nowMs, needsRepair: true });
}

/** The notes in records about published trees, by their paths: the name of a branch does not determine the path if two names are alike. */
export function driftNotesIn(
  records: ReadonlyMap<string, TargetRecord>,
  published: readonly Pick<Published, 'path' | 'repository' | 'branch'>[],
): Map<string, DriftNote> {
  const notes = new Map<string, DriftNote>();
  for (const tree of published) {
    const drift = records.get(treeKey(tree))?.drift ?? null;
    if (drift !== null) notes.set(tree.path, drift);
  }
  return notes;
}
