import { type Difference, summariseDrift, trustOf } from '../store/verify/drift.ts';
import type { Manifest } from '../store/manifest.ts';
import type { MirrorStore } from '../store/store.ts';
import type { EventSink } from './events.ts';
import type { Pull } from './execution.ts';

/** The published tree of a target, and how far it may be believed. */
export interface PublishedState {
  /** Null when nothing is published. */
  readonly manifest: Manifest | null;
  /** Whether the tree differs from its manifest. */
  readonly isDamaged: boolean;
  /** Whether the published copy of a file may be taken for what its manifest says. */
  readonly isTrusted: (path: string) => boolean;
}

/** Compares what stands in a target's place with its manifest: the plan may not have known of it. @throws MirrorError `disk.*` */
export async function lookAtPublished({ context, action, signal }: Pull): Promise<PublishedState> {
  const { store, emit } = context;
  const { path, target, depth } = action;
  const manifest = await store.manifest(path);
  const isOurs = manifest?.repository.id === target.repositoryId && manifest.branch === target.branch;
  if (!isOurs) return { manifest: null, isDamaged: false, isTrusted: () => false };
  const differences = await store.examine(path, manifest, depth, signal);
  await noteSharers(store, emit, path, differences ?? []);
  if (differences === null) return { manifest, isDamaged: true, isTrusted: () => false };
  return { manifest, isDamaged: differences.length > 0, isTrusted: trustOf(differences) };
}

/** Marks other targets as drifted that share a changed file with this one: the change is in their trees, too. */
async function noteSharers(
  store: MirrorStore,
  emit: EventSink,
  path: string,
  differences: readonly Difference[],
): Promise<void> {
  if (differences.length === 0) return;
  for (const target of await store.sharersOf(path, differences)) {
    if (store.drifted.has(target)) continue;
    store.drifted.add(target);
    const { modified, first } = summariseDrift(differences);
    emit({ name: 'target.drifted', target, added: 0, missing: 0, modified, first });
  }
}
