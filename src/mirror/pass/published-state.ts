import { publishedManifest } from '../store/inventory.ts';
import { examinePublished } from '../store/verify/examine.ts';
import { trustOf } from '../store/verify/drift.ts';
import type { Manifest } from '../store/manifest.ts';
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
  const { layout, onProgress: onBytes } = context.store;
  const { path, target, depth } = action;
  const manifest = await publishedManifest(layout, path);
  const isOurs = manifest?.repository.id === target.repositoryId && manifest.branch === target.branch;
  if (!isOurs) return { manifest: null, isDamaged: false, isTrusted: () => false };
  const differences = await examinePublished(layout, path, manifest.files, {
    depth,
    signal,
    onBytes,
  });
  return { manifest, isDamaged: differences.length > 0, isTrusted: trustOf(differences) };
}
