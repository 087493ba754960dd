import type { ManifestFile, TreeChanges } from '../manifest.ts';

/**
 * One rename. Places are below the directory, or, where they begin with `stage/`, in the stage of the journal. Whatever has another
 * inode at `from` stays there: either the move was made already, or someone put something else there.
 */
export interface Move {
  readonly from: string;
  readonly to: string;
  /** Of what is to be moved. */
  readonly inode: number;
  /** Whether what stands at `to` goes to `from` in the same step (renameat2(2)). */
  readonly swaps?: true | undefined;
}

/** Names of what lies in a stage. */
export const STAGED = {
  tree: 'tree',
  /** The link to the new tree, where it is to be linked to. */
  link: 'link',
  /** The tree that gives way, where the file system cannot exchange two. */
  displaced: 'displaced',
  /** What is removed, under numbers. */
  removed: 'removed',
  manifest: 'manifest.json',
  archive: 'archive.zip',
  aside: 'aside',
  /** Links to the published files that change or go, for the history. */
  kept: 'kept',
  keptManifest: 'kept.json',
  /** The whole new tree as someone is shown it before it is published. */
  view: 'view',
} as const;

/** What stands at the place of a tree. */
export interface Occupant {
  readonly inode: number;
  /** Whether it is a link of the program's own, the tree of which stays for readers that resolved it. */
  readonly isLink: boolean;
}

/** Files with their inodes, by path within a tree. */
type Inodes = ReadonlyMap<string, number>;

/** The facts from which the moves of a publish follow. */
export interface PublishFacts {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly method: PublishMethod['kind'];
  readonly canExchange: boolean;
  readonly manifestInode: number;
  /** Of the staged tree or, for the method `link`, of the staged link; null where neither is moved. */
  readonly sourceInode: number | null;
  /** The staged files that are moved one by one. */
  readonly files: Inodes;
  /** Published files that are removed one by one. */
  readonly removed: Inodes;
  /** Null where nothing stands at the place. */
  readonly occupant: Occupant | null;
  /** Where the history takes what leaves; null where it takes nothing. */
  readonly history: HistoryFacts | null;
}

/** What goes to the history. */
export interface HistoryFacts {
  /** `history/<repository>/<branch>/<time>`. */
  readonly place: string;
  /** Of the folder of links in the stage; null where the folder at the place goes as a whole, as it is another target's. */
  readonly keptInode: number | null;
  /** Of the staged link to the manifest before; null where there was none. */
  readonly manifestInode: number | null;
}

/** The moves that make a stage the published state of its target: the tree first, then the history, then the manifest. */
export function publishMoves(facts: PublishFacts): Move[] {
  const { target, manifestInode } = facts;
  return [
    ...treeMoves(facts),
    ...historyMoves(facts),
    { from: `stage/${STAGED.manifest}`, to: `manifests/${target}.json`, inode: manifestInode },
  ];
}

function treeMoves(facts: PublishFacts): Move[] {
  switch (facts.method) {
    case 'manifest':
      return [];
    case 'in-place':
    case 'rename':
      return fileMoves(facts);
    case 'first':
    case 'exchange':
    case 'link':
      return wholeMoves(facts);
  }
}

/** Files that leave make room for folders of their names, so they go first. */
function fileMoves({ target, files, removed }: PublishFacts): Move[] {
  const tree = `mirror/${target}`;
  return [
    ...[...removed].map(([path, inode], index) => ({
      from: `${tree}/${path}`,
      to: `stage/${STAGED.removed}/${index}`,
      inode,
    })),
    ...[...files].map(([path, inode]) => ({
      from: `stage/${STAGED.tree}/${path}`,
      to: `${tree}/${path}`,
      inode,
    })),
  ];
}

/** A link replaces another link in one rename; where it cannot, the two change places, or there is nothing for an instant. */
function wholeMoves(facts: PublishFacts): Move[] {
  const { target, method, canExchange, occupant, sourceInode } = facts;
  const step = { from: sourceOf(facts), to: `mirror/${target}`, inode: sourceInode ?? 0 };
  if (occupant === null || (method === 'link' && occupant.isLink)) return [step];
  if (canExchange) return [{ ...step, swaps: true }];
  return [{ from: step.to, to: `stage/${STAGED.displaced}`, inode: occupant.inode }, step];
}

function sourceOf({ method }: PublishFacts): string {
  return `stage/${method === 'link' ? STAGED.link : STAGED.tree}`;
}

function historyMoves(facts: PublishFacts): Move[] {
  const { occupant, canExchange, history } = facts;
  if (history === null) return [];
  const { place, keptInode, manifestInode } = history;
  const moves: Move[] = [];
  if (keptInode !== null) moves.push({ from: `stage/${STAGED.kept}`, to: place, inode: keptInode });
  else if (occupant !== null) {
    const from = canExchange ? sourceOf(facts) : `stage/${STAGED.displaced}`;
    moves.push({ from, to: place, inode: occupant.inode });
  }
  if (manifestInode !== null)
    moves.push({ from: `stage/${STAGED.keptManifest}`, to: `${place}.json`, inode: manifestInode });
  return moves;
}

/** The facts from which the moves of a target to elsewhere follow. */
export interface LeavingFacts {
  readonly target: string;
  /** Null where nothing stands at the place. */
  readonly occupant: Occupant | null;
  /** Null where there is no manifest. */
  readonly manifestInode: number | null;
}

/**
 * The moves that bring a target to the history.
 * @param place `history/<repository>/<branch>/<time>`
 * @param keptInode of the folder of links in the stage; null where the folder at the place goes as a whole
 */
export function retireMoves(
  { target, occupant, manifestInode }: LeavingFacts,
  place: string,
  keptInode: number | null,
): Move[] {
  const moves: Move[] = [];
  // Before the link leaves: at no instant are the files at neither place.
  if (keptInode !== null) moves.push({ from: `stage/${STAGED.kept}`, to: place, inode: keptInode });
  if (occupant !== null) {
    const to = occupant.isLink ? `stage/${STAGED.displaced}` : place;
    moves.push({ from: `mirror/${target}`, to, inode: occupant.inode });
  }
  if (manifestInode !== null)
    moves.push({ from: `manifests/${target}.json`, to: `${place}.json`, inode: manifestInode });
  return moves;
}

/**
 * The moves that bring a target to the path of its renamed repository.
 * @param to `<repository>/<branch>`, where nothing is
 * @param staged inodes of the new manifest, and of the new link to the same tree, where the old one was a link
 */
export function renameMoves(
  { target, occupant, manifestInode }: LeavingFacts,
  to: string,
  staged: { readonly manifestInode: number; readonly linkInode: number | null },
): Move[] {
  const moves: Move[] = [];
  const from = `mirror/${target}`;
  if (occupant !== null && staged.linkInode === null)
    moves.push({ from, to: `mirror/${to}`, inode: occupant.inode });
  if (occupant !== null && staged.linkInode !== null)
    moves.push(
      { from: `stage/${STAGED.link}`, to: `mirror/${to}`, inode: staged.linkInode },
      { from, to: `stage/${STAGED.displaced}`, inode: occupant.inode },
    );
  moves.push({
    from: `stage/${STAGED.manifest}`,
    to: `manifests/${to}.json`,
    inode: staged.manifestInode,
  });
  if (manifestInode !== null && to !== target)
    moves.push({
      from: `manifests/${target}.json`,
      to: `stage/${STAGED.removed}/manifest.json`,
      inode: manifestInode,
    });
  return moves;
}

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
