import { changedFiles, type FileChange, hookTree, type TreeNews } from '../../app/command-hooks.ts';
import type { Published } from '../../mirror/plan/record.ts';
import type { HookTree } from '../../mirror/state/state.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';

/** The trees on the disk. */
export interface TreesOnDisk {
  readonly published: readonly Published[];
  readonly others: readonly Pick<Published, 'path'>[];
  /** Paths whose manifest cannot be read. */
  readonly unreadable: readonly string[];
}

/** Whether two trees belong to one target. */
export function isSameTarget(a: HookTree, b: HookTree): boolean {
  return a.repositoryId === b.repositoryId && a.branch === b.branch;
}

/**
 * Everything for which the command has not succeeded yet: the published trees are compared with those it received, so that
 * nothing is forgotten after crashes, restarts and failures. Moved trees come first, trees that left the mirror last.
 * @param trees the mirror's trees: nothing is due for trees that another instance mirrors now, and for paths with an unreadable
 *   manifest
 * @param delivered by path
 */
export function dueHooks(
  { published, others, unreadable }: TreesOnDisk,
  delivered: ReadonlyMap<string, HookTree>,
): TreeNews[] {
  const present = new Set([...[...published, ...others].map(({ path }) => path), ...unreadable]);
  const left = new Map<string, { readonly target: string; readonly tree: HookTree }>();
  for (const [target, tree] of delivered) if (!present.has(target)) left.set(keyOf(tree), { target, tree });
  const moved: TreeNews[] = [];
  const changed: TreeNews[] = [];
  for (const { path, treePresent, ...each } of published) {
    if (!treePresent) continue;
    const tree = hookTree(each);
    const former = left.get(keyOf(tree));
    if (former !== undefined && !isDelivered(delivered.get(path), tree)) {
      left.delete(keyOf(tree));
      moved.push({
        event: 'moved',
        target: path,
        movedFrom: former.target,
        tree,
        before: received(former.tree),
      });
    } else changed.push(...[dueForTree(path, tree, delivered)].filter((due) => due !== null));
  }
  const retired = [...left.values()].map(({ target, tree }): TreeNews => {
    return { event: 'retired', target, movedFrom: null, tree, before: received(tree) };
  });
  return [...moved, ...changed, ...retired];
}

/** The state to remember of a tree before the command first runs for it: none that it received. */
export function attempted(tree: HookTree): HookTree {
  return { ...tree, publishedAtMs: 0, fingerprint: null };
}

/** A remembered state, if the command received it; null for one as {@link attempted} makes it. */
function received(known: HookTree): HookTree | null {
  return known.publishedAtMs === 0 ? null : known;
}

/** The news of a published tree; null for none. */
export function dueForTree(
  target: string,
  tree: HookTree,
  delivered: ReadonlyMap<string, HookTree>,
): TreeNews | null {
  const known = delivered.get(target);
  if (isDelivered(known, tree)) return null;
  const before = known !== undefined && isSameTarget(known, tree) ? received(known) : null;
  return { event: 'published', target, movedFrom: null, tree, before };
}

function isDelivered(known: HookTree | undefined, tree: HookTree): boolean {
  return known !== undefined && isSameTarget(known, tree) && known.publishedAtMs === tree.publishedAtMs;
}

function keyOf({ repositoryId, branch }: HookTree): string {
  return JSON.stringify([repositoryId, branch]);
}

/** The changes that lead from one state of a tree to a later one. States are named by their `publishedAtMs`. */
export interface ChangeSpan {
  /** Null if there was no tree before. */
  readonly since: number | null;
  readonly until: number;
  readonly changes: readonly FileChange[];
}

/** The changes that a publish made. @param previous the tree before; null if there was none */
export function spanOf(previous: Manifest | null, manifest: Manifest): ChangeSpan {
  return {
    since: previous?.publishedAtMs ?? null,
    until: manifest.publishedAtMs,
    changes: changedFiles(previous?.files ?? [], manifest.files),
  };
}

/**
 * The changed files of a due tree, if known: a span must lead exactly from the tree that the command received last to the
 * published one. Null if unknown: then the command must examine the whole tree.
 */
export function knownChanges(
  { event, before, tree }: Omit<TreeNews, 'target' | 'movedFrom'>,
  occupant: HookTree | undefined,
  span: ChangeSpan | undefined,
): readonly FileChange[] | null {
  if (event === 'retired') return null;
  // A list must not start from another repository's tree at this path.
  if (occupant !== undefined && !isSameTarget(occupant, tree)) return null;
  const base = before?.publishedAtMs ?? null;
  if (base === tree.publishedAtMs) return [];
  return span?.since === base && span.until === tree.publishedAtMs ? span.changes : null;
}
