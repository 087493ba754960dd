import { MirrorError } from '../../../lib/errors/errors.ts';
import { isUnchanged, type ManifestFile, type TreeChanges } from '../manifest.ts';
import type { TreePlace } from '../published-tree.ts';

/** A rename. Places are below the directory; those that begin with `stage/` are in the stage of the journal. */
export interface Rename {
  readonly from: string;
  readonly to: string;
  /** Whether the entry at `to`, if there is one, goes to `from` in the same step (renameat2(2)). */
  readonly swaps?: true | undefined;
}

/**
 * A rename of one exact entry. An entry with another inode at `from` stays: either the move was already made, or someone put
 * something else there.
 */
export interface Move extends Rename {
  readonly inode: number;
}

/** The names in a stage. */
export const STAGED = {
  tree: 'tree',
  /** The link to the new tree, if `publish` uses links. */
  link: 'link',
  /** The replaced tree, if the file system cannot exchange two. */
  displaced: 'displaced',
  /** Removed entries, under numbers. */
  removed: 'removed',
  manifest: 'manifest.json',
  archive: 'archive.zip',
  aside: 'aside',
  /** Links to the published files that change or go, for the history. */
  kept: 'kept',
  keptManifest: 'kept.json',
} as const;

const staged = (name: keyof typeof STAGED): string => `stage/${STAGED[name]}`;

/** The state of a target that goes to the history. */
export interface Keeping {
  /** `history/<repository>/<branch>/<time>`. */
  readonly place: string;
  /** Whether links to the kept files are staged; otherwise the replaced tree goes as a whole, as it is another target's. */
  readonly isStaged: boolean;
  /** Whether a copy of the previous manifest is staged. */
  readonly hasManifest: boolean;
}

/** The setting `publish`. */
export type PublishMode = 'auto' | 'exchange' | 'rename' | 'link';

/**
 * How a change reaches a published tree: only the manifest changes; the tree is new; one rename or unlink, which is
 * atomic; old and new tree change places; a link to the new tree replaces the old tree or link; or
 * file after file.
 */
export type PublishMethod = 'manifest' | 'first' | 'in-place' | 'exchange' | 'link' | 'rename';

/** Everything that decides how a new state of a target is published. */
export interface PublishSituation {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly mode: PublishMode;
  /** Whether the file system swaps directories. */
  readonly canExchange: boolean;
  /** The kind of entry at the place of the tree. */
  readonly place: TreePlace['kind'];
  /** Whether the entry is the target's own tree, and not one without manifest, or another repository's. */
  readonly isOwn: boolean;
  readonly changes: TreeChanges;
  /** Whether someone changed the tree, so that more than the changes must be repaired. */
  readonly isDamaged: boolean;
  /** Paths that someone added to the tree. They are removed if files are published one by one. */
  readonly foreign: readonly string[];
  /** The files of the new manifest. */
  readonly files: readonly Pick<ManifestFile, 'path'>[];
  /** Null if nothing goes to the history. */
  readonly keeping: Keeping | null;
}

/** The facts that decide the method. */
type MethodFacts = Omit<PublishSituation, 'target' | 'foreign' | 'keeping'>;

/** Whether readers only see whole trees, and never a single file of the next one. */
export function publishesWhole({
  mode,
  canExchange,
}: Pick<PublishSituation, 'mode' | 'canExchange'>): boolean {
  return mode === 'link' || (canExchange && mode !== 'rename');
}

/** Chooses the least intrusive method that is atomic for readers, as far as the file system allows it. */
export function choosePublishMethod(situation: MethodFacts): PublishMethod {
  const { mode, place, isOwn, changes, isDamaged } = situation;
  const isThere = place !== 'gone' && place !== 'dangling';
  const isLinked = place === 'link';
  const isRight = isThere && isOwn && isUnchanged(changes) && !isDamaged;
  // A tree that readers may have reached by a link is never changed.
  if (mode === 'link') return isRight && isLinked ? 'manifest' : 'link';
  if (!isThere) return 'first';
  // A link is replaced by a folder as a whole. Without exchange, that takes two steps.
  const canSwap = isLinked || publishesWhole(situation);
  if (!isOwn) return canSwap ? 'exchange' : 'first';
  if (isRight) return 'manifest';
  if (isOneCall(situation)) return 'in-place';
  return canSwap ? 'exchange' : 'rename';
}

/** Whether one system call makes the whole change: one file, whose folder exists before, and is not empty after. */
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
      // Removed files go first, as new folders may need their names.
      ...removed.map((path, at) => ({ from: `${tree}/${path}`, to: `${staged('removed')}/${at}` })),
      ...[...changes.added, ...changes.changed].map((path) => ({
        from: `${staged('tree')}/${path}`,
        to: `${tree}/${path}`,
      })),
    ];
  }
  const step = { from: staged(method === 'link' ? 'link' : 'tree'), to: tree };
  // A link replaces another one in one rename. Without exchange, the place of a tree is empty for an instant.
  if (method === 'link' && (place === 'link' || place === 'dangling')) return [step];
  return canExchange ? [{ ...step, swaps: true }] : [{ from: tree, to: staged('displaced') }, step];
}

/**
 * The renames that move a target to the history.
 * @param place `history/<repository>/<branch>/<time>`
 * @param isLinked whether the program's own link leads to the tree; then links to all files are staged
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
  // Before the link goes: at every instant the files are in one of the places.
  return [{ from: staged('kept'), to: place }, { from: tree, to: staged('displaced') }, ...manifests];
}

/**
 * The renames that move a target to the path of its renamed repository.
 * @param to `<repository>/<branch>`, a free path, or the target's own
 * @param isLinked whether the program's own link leads to its tree; then another link is staged
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
 * Guards each rename by the inode that it will find after the renames before it; leaves out entries that are not there.
 * @param inodeAt the inode at a place before the first rename; null for none
 * @throws MirrorError `disk.changed` if an entry is no longer in the stage
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
      throw new MirrorError('disk.changed', `Someone removed ${from} while a change was being prepared.`, {
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
