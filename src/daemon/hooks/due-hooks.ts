import { changedFiles, type FileChange, toldTree } from '../../app/published-changes.ts';
import type { OtherTree, Published } from '../../mirror/plan/record.ts';
import type { ToldTree } from '../../mirror/state/state.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';

/** News for the command: a tree has a new state, has moved, or has left the mirror. */
export interface DueHook {
  readonly event: 'published' | 'moved' | 'retired';
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly target: string;
  /** Where the tree stood before, if it moved. */
  readonly movedFrom: string | null;
  /** The tree that stands there, or the one that left. */
  readonly tree: ToldTree;
  /** The state that the command was last told of; null for none. */
  readonly before: ToldTree | null;
}

/** The trees that the disk holds. */
export interface StandingTrees {
  readonly published: readonly Published[];
  readonly others: readonly Pick<OtherTree, 'path'>[];
  /** Paths whose manifest cannot be read. */
  readonly unreadable: readonly string[];
}

/** Whether two trees are of one target. */
export function isSameTarget(a: ToldTree, b: ToldTree): boolean {
  return a.repositoryId === b.repositoryId && a.branch === b.branch;
}

/**
 * Everything that the command has not been told to its success: what stands is compared with what it was told, so that
 * nothing is forgotten across crashes, restarts and failures. What moved comes first, what left the mirror last.
 * @param trees what the mirror holds: nothing is due for what another instance mirrors now, and for paths whose manifest cannot
 *   be read
 * @param told by path
 */
export function dueHooks(
  { published, others, unreadable }: StandingTrees,
  told: ReadonlyMap<string, ToldTree>,
): DueHook[] {
  const standing = new Set([...[...published, ...others].map(({ path }) => path), ...unreadable]);
  const left = new Map<string, string>();
  for (const [path, tree] of told) if (!standing.has(path)) left.set(keyOf(tree), path);
  const moved: DueHook[] = [];
  const changed: DueHook[] = [];
  for (const each of published) {
    if (!each.treePresent) continue;
    const tree = toldTree(each);
    const from = left.get(keyOf(tree));
    const before = from === undefined ? undefined : told.get(from);
    if (from !== undefined && before !== undefined && !isTold(told.get(each.path), tree)) {
      left.delete(keyOf(tree));
      moved.push({ event: 'moved', target: each.path, movedFrom: from, tree, before });
    } else {
      const due = dueForTree(each.path, tree, told);
      if (due !== null) changed.push(due);
    }
  }
  const retired = [...left.values()].flatMap((target): DueHook[] => {
    const tree = told.get(target);
    return tree === undefined ? [] : [{ event: 'retired', target, movedFrom: null, tree, before: tree }];
  });
  return [...moved, ...changed, ...retired];
}

/** The news of a tree that stands; null for none. */
export function dueForTree(
  target: string,
  tree: ToldTree,
  told: ReadonlyMap<string, ToldTree>,
): DueHook | null {
  const known = told.get(target);
  if (isTold(known, tree)) return null;
  const before = known !== undefined && isSameTarget(known, tree) ? known : null;
  return { event: 'published', target, movedFrom: null, tree, before };
}

function isTold(known: ToldTree | undefined, tree: ToldTree): boolean {
  return known !== undefined && isSameTarget(known, tree) && known.publishedAtMs === tree.publishedAtMs;
}

function keyOf({ repositoryId, branch }: ToldTree): string {
  return JSON.stringify([repositoryId, branch]);
}

/** The changes that lead from one state of a tree to a later one. States are named by their `publishedAtMs`. */
export interface ChangeSpan {
  /** Null where nothing stood before. */
  readonly since: number | null;
  readonly until: number;
  readonly changes: readonly FileChange[];
}

/** The changes that a publish made. @param previous what was published before; null where nothing was */
export function spanOf(previous: Manifest | null, manifest: Manifest): ChangeSpan {
  return {
    since: previous?.publishedAtMs ?? null,
    until: manifest.publishedAtMs,
    changes: changedFiles(previous?.files ?? [], manifest.files),
  };
}

/**
 * The changed files of what is due, if they are known: a span must lead from just what the command was told last to just what
 * stands there. Null where they are not known, so that the command has to look at the whole tree.
 */
export function knownChanges(
  { event, before, tree }: Omit<DueHook, 'target' | 'movedFrom'>,
  occupant: ToldTree | undefined,
  span: ChangeSpan | undefined,
): readonly FileChange[] | null {
  if (event === 'retired') return null;
  // Whatever the command was told of another repository's tree in this place is no basis for a list.
  if (occupant !== undefined && !isSameTarget(occupant, tree)) return null;
  const base = before?.publishedAtMs ?? null;
  if (base === tree.publishedAtMs) return [];
  return span?.since === base && span.until === tree.publishedAtMs ? span.changes : null;
}
