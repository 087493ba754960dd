import type { ManifestFile, TreeChanges } from '../manifest.ts';

/** The setting `publish`. */
export type PublishMode = 'auto' | 'exchange' | 'rename' | 'link';

/** How a change reaches a published tree. */
export type PublishMethod =
  /** Nothing but the manifest changes. */
  | { readonly kind: 'manifest' }
  /** The tree is not there yet. */
  | { readonly kind: 'first' }
  /** One rename or unlink, which is atomic by itself. */
  | { readonly kind: 'in-place'; readonly file: string; readonly isRemoval: boolean }
  /** A new tree changes places with the old one. */
  | { readonly kind: 'exchange' }
  /** A link to a new tree takes the place of whatever leads readers to the old one. */
  | { readonly kind: 'link' }
  /** File after file. */
  | { readonly kind: 'rename' };

/** The facts that decide the method of a publish. */
export interface PublishSituation {
  readonly mode: PublishMode;
  /** Whether the file system swaps directories. */
  readonly canExchange: boolean;
  /** Whether a tree with its manifest stands at the path already. */
  readonly isPublished: boolean;
  /** Whether something else stands there: a tree without manifest, or another repository's. */
  readonly isOccupied: boolean;
  /** Whether the way to what stands there is a link. */
  readonly isLinked: boolean;
  readonly changes: TreeChanges;
  /** Whether someone changed the tree, so that more than the changes must be put right. */
  readonly isDamaged: boolean;
  /** The new inventory. */
  readonly files: readonly ManifestFile[];
}

/** Whether readers see whole trees alone, and not also single files of the next one. */
export function publishesWhole({
  mode,
  canExchange,
}: Pick<PublishSituation, 'mode' | 'canExchange'>): boolean {
  return mode === 'link' || (canExchange && mode !== 'rename');
}

/** Chooses the least intrusive way to publish that is atomic for readers, as far as the file system lets it. */
export function choosePublishMethod(situation: PublishSituation): PublishMethod {
  const { mode, changes, isLinked } = situation;
  if (mode === 'link') return chooseForLinks(situation);
  // A link gives way to a folder as a whole, where the file system cannot exchange the two in two steps.
  const canSwap = isLinked || publishesWhole(situation);
  if (situation.isOccupied) return canSwap ? { kind: 'exchange' } : { kind: 'first' };
  if (!situation.isPublished) return { kind: 'first' };
  const count = changes.added.length + changes.changed.length + changes.removed.length;
  if (count === 0 && !situation.isDamaged) return { kind: 'manifest' };
  if (count === 1 && mode === 'auto' && !isLinked && !situation.isDamaged) {
    const inPlace = singleStep(changes, situation.files);
    if (inPlace !== null) return inPlace;
  }
  return canSwap ? { kind: 'exchange' } : { kind: 'rename' };
}

/** No tree that readers may have come to by a link is ever changed. */
function chooseForLinks({ isPublished, isLinked, isDamaged, changes }: PublishSituation): PublishMethod {
  const count = changes.added.length + changes.changed.length + changes.removed.length;
  return isPublished && isLinked && count === 0 && !isDamaged ? { kind: 'manifest' } : { kind: 'link' };
}

/** A change that one system call makes: its folder must be there before, and not be empty after. */
function singleStep(changes: TreeChanges, files: readonly ManifestFile[]): PublishMethod | null {
  const [changed] = changes.changed;
  if (changed !== undefined) return { kind: 'in-place', file: changed, isRemoval: false };
  const file = changes.added[0] ?? changes.removed[0];
  if (file === undefined) return null;
  const isRemoval = changes.added.length === 0;
  const folder = file.slice(0, file.lastIndexOf('/') + 1);
  const hasNeighbour =
    folder === '' || files.some((other) => other.path !== file && other.path.startsWith(folder));
  return hasNeighbour ? { kind: 'in-place', file, isRemoval } : null;
}
