import { MirrorError } from '../../../lib/errors/errors.ts';
import { isUnchanged, type ManifestFile, type TreeChanges } from '../manifest.ts';
import type { TreePlace } from '../published-tree.ts';

/** A rename. Places are below the directory, or, where they begin with `stage/`, in the stage of the journal. */
export interface Rename {
  readonly from: string;
  readonly to: string;
  /** Whether what is at `to`, if anything is, goes to `from` in the same step (renameat2(2)). */
  readonly swaps?: true | undefined;
}

/**
 * A rename of one certain thing. Whatever has another inode at `from` stays there: either the move was made already, or someone put
 * something else there.
 */
export interface Move extends Rename {
  readonly inode: number;
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
} as const;

const staged = (name: keyof typeof STAGED): string => `stage/${STAGED[name]}`;

/** What goes to the history of a target. */
export interface Keeping {
  /** `history/<repository>/<branch>/<time>`. */
  readonly place: string;
  /** Whether links to what is kept are staged; else the tree that gives way goes as a whole, as it is another target's. */
  readonly isStaged: boolean;
  /** Whether a copy of the manifest before is staged. */
  readonly hasManifest: boolean;
}

/** The setting `publish`. */
export type PublishMode = 'auto' | 'exchange' | 'rename' | 'link';

/**
 * How a change reaches a published tree: nothing but the manifest changes; the tree is not there yet; one rename or unlink, which is
 * atomic; a new tree changes places with the old one; a link to a new tree takes the place of whatever leads readers to the old one; or
 * file after file.
 */
export type PublishMethod = 'manifest' | 'first' | 'in-place' | 'exchange' | 'link' | 'rename';

/** All that decides how a new state of a target is published. */
export interface PublishSituation {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly mode: PublishMode;
  /** Whether the file system swaps directories. */
  readonly canExchange: boolean;
  /** Whatever is at the place of the tree. */
  readonly place: TreePlace['kind'];
  /** Whether that is the target's own tree, and not one without manifest, or another repository's. */
  readonly isOwn: boolean;
  readonly changes: TreeChanges;
  /** Whether someone changed the tree, so that more than the changes must be put right. */
  readonly isDamaged: boolean;
  /** Paths of what someone added to the tree, which is removed where files are published one by one. */
  readonly foreign: readonly string[];
  /** The new inventory. */
  readonly files: readonly Pick<ManifestFile, 'path'>[];
  /** Null where the history takes nothing. */
  readonly keeping: Keeping | null;
}

/** The part of it that decides the method. */
type MethodFacts = Omit<PublishSituation, 'target' | 'foreign' | 'keeping'>;

/** Whether readers see whole trees alone, and not also single files of the next one. */
export function publishesWhole({
  mode,
  canExchange,
}: Pick<PublishSituation, 'mode' | 'canExchange'>): boolean {
  return mode === 'link' || (canExchange && mode !== 'rename');
}

/** Chooses the least intrusive way to publish that is atomic for readers, as far as the file system lets it. */
export function choosePublishMethod(situation: MethodFacts): PublishMethod {
  const { mode, place, isOwn, changes, isDamaged } = situation;
  const isThere = place !== 'gone' && place !== 'dangling';
  const isLinked = place === 'link';
  const isRight = isThere && isOwn && isUnchanged(changes) && !isDamaged;
  // No tree that readers may have come to by a link is ever changed.
  if (mode === 'link') return isRight && isLinked ? 'manifest' : 'link';
  if (!isThere) return 'first';
  // A link gives way to a folder as a whole, where the file system cannot exchange the two in two steps.
  const canSwap = isLinked || publishesWhole(situation);
  if (!isOwn) return canSwap ? 'exchange' : 'first';
  if (isRight) return 'manifest';
  if (isOneCall(situation)) return 'in-place';
  return canSwap ? 'exchange' : 'rename';
}

/** Whether one system call makes the whole change: of one file, whose folder must be there before, and not be empty after. */
function isOneCall({ mode, place, changes, files, isDamaged }: MethodFacts): boolean {
  const [file = '', ...others] = [...changes.added, ...changes.changed, ...changes.removed];
  if (others.length > 0 || mode !== 'auto' || place === 'link' || isDamaged) return false;
  const folder = file.slice(0, file.lastIndexOf('/') + 1);
  const isAlone = !files.some(({ path }) => path !== file && path.startsWith(folder));
  return changes.changed.length > 0 || folder === '' || !isAlone;
}

/** The renames that make a stage the published state of its target: the tree first, then the history, then the manifest. */
export function publishRenames(method: PublishMethod, situation: PublishSituation): Rename[] {
  const { target, canExchange, keeping } = situation;
  const manifest = { from: staged('manifest'), to: `manifests/${target}.json` };
  const tree = treeRenames(method, situation);
  if (keeping === null) return [...tree, manifest];
  const { place, isStaged, hasManifest } = keeping;
  const gaveWay = canExchange ? staged(method === 'link' ? 'link' : 'tree') : staged('displaced');
  return [
    ...tree,
    { from: isStaged ? staged('kept') : gaveWay, to: place },
    ...(hasManifest ? [{ from: staged('keptManifest'), to: `${place}.json` }] : []),
    manifest,
  ];
}

function treeRenames(
  method: PublishMethod,
  { target, canExchange, place, changes, foreign }: PublishSituation,
): Rename[] {
  const tree = `mirror/${target}`;
  if (method === 'manifest') return [];
  if (method === 'in-place' || method === 'rename') {
    const removed = method === 'rename' ? [...changes.removed, ...foreign] : changes.removed;
    return [
      // Files that leave make room for folders of their names, so they go first.
      ...removed.map((path, at) => ({ from: `${tree}/${path}`, to: `${staged('removed')}/${at}` })),
      ...[...changes.added, ...changes.changed].map((path) => ({
        from: `${staged('tree')}/${path}`,
        to: `${tree}/${path}`,
      })),
    ];
  }
  const step = { from: staged(method === 'link' ? 'link' : 'tree'), to: tree };
  // A link replaces another one in one rename; where nothing can be exchanged there is nothing for an instant.
  if (method === 'link' && (place === 'link' || place === 'dangling')) return [step];
  return canExchange ? [{ ...step, swaps: true }] : [{ from: tree, to: staged('displaced') }, step];
}

/**
 * The renames that bring a target to the history.
 * @param place `history/<repository>/<branch>/<time>`
 * @param isLinked whether a link of the program's own leads to the tree; then links to all files are staged
 * @param isMarked whether another manifest is staged for the history
 */
export function retireRenames(target: string, place: string, isLinked: boolean, isMarked = false): Rename[] {
  const tree = `mirror/${target}`;
  const manifest = `manifests/${target}.json`;
  const manifests = isMarked
    ? [
        { from: staged('keptManifest'), to: `${place}.json` },
        { from: manifest, to: `${staged('removed')}/manifest.json` },
      ]
    : [{ from: manifest, to: `${place}.json` }];
  if (!isLinked) return [{ from: tree, to: place }, ...manifests];
  // Before the link leaves: at no instant are the files at neither place.
  return [{ from: staged('kept'), to: place }, { from: tree, to: staged('displaced') }, ...manifests];
}

/**
 * The renames that bring a target to the path of its renamed repository.
 * @param to `<repository>/<branch>`, where nothing is, or the path that the target has
 * @param isLinked whether a link of the program's own leads to its tree; then another one is staged
 */
export function moveRenames(target: string, to: string, isLinked: boolean): Rename[] {
  const manifest = { from: staged('manifest'), to: `manifests/${to}.json` };
  if (to === target) return [manifest];
  const [tree, next] = [`mirror/${target}`, `mirror/${to}`];
  return [
    ...(isLinked
      ? [
          { from: staged('link'), to: next },
          { from: tree, to: staged('displaced') },
        ]
      : [{ from: tree, to: next }]),
    manifest,
    { from: `manifests/${target}.json`, to: `${staged('removed')}/manifest.json` },
  ];
}

/**
 * Guards each rename by the inode that it is about, as it will be after those before it; leaves out those of what is not there.
 * @param inodeAt of whatever is at a place before the first rename; null for nothing
 * @throws MirrorError `disk.changed` where something is not in the stage any more
 */
export function guardedMoves(renames: readonly Rename[], inodeAt: (place: string) => number | null): Move[] {
  const moved = new Map<string, number | null>();
  const find = (place: string): number | null => {
    const known = moved.get(place);
    return known === undefined ? inodeAt(place) : known;
  };
  const moves: Move[] = [];
  for (const { from, to, swaps } of renames) {
    const inode = find(from);
    if (inode === null && from.startsWith('stage/'))
      throw new MirrorError('disk.changed', `Someone removed ${from} while a change was made ready.`, {
        hint: 'Nothing was published.',
      });
    if (inode === null) continue;
    const replaced = swaps === true ? find(to) : null;
    moves.push({ from, to, inode, ...(replaced === null ? {} : { swaps: true }) });
    moved.set(from, replaced);
    moved.set(to, inode);
  }
  return moves;
}
