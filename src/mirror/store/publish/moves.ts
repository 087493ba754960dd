import type { Move } from './journal.ts';
import type { PublishMethod } from './publishing.ts';

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
