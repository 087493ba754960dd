import { type ManifestFile, treeChanges } from '../store/manifest.ts';
import type { OtherTree, Published } from './targets.ts';

/** A tree in the form in which the command after publishing receives it. */
export interface ToldTree {
  readonly repositoryId: string;
  readonly repository: string;
  readonly branch: string;
  /** Tells one state of the tree from the next. Milliseconds since the epoch. */
  readonly publishedAtMs: number;
  readonly fingerprint: string | null;
}

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

/** The form in which the command receives a tree. */
export function toldTree({
  repository,
  branch,
  publishedAtMs,
  fingerprint,
}: Pick<Published, 'repository' | 'branch' | 'publishedAtMs' | 'fingerprint'>): ToldTree {
  return {
    repositoryId: repository.id,
    repository: repository.fullName,
    branch,
    publishedAtMs,
    fingerprint,
  };
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

/** A change that a publish made to one file of a tree. */
export interface FileChange {
  readonly change: 'added' | 'changed' | 'removed';
  /** Path below the tree, with slashes. */
  readonly path: string;
  /** The version of the workbook that the file is now; absent for other files and for removed ones. */
  readonly version?: string;
}

/** The files in which a new inventory differs from the one before: added, then changed, then removed ones. */
export function changedFiles(before: readonly ManifestFile[], after: readonly ManifestFile[]): FileChange[] {
  const { added, changed, removed } = treeChanges(before, after);
  const versions = new Map(after.map(({ path, workbook }) => [path, workbook?.versionId]));
  const standing = (change: 'added' | 'changed', path: string): FileChange => {
    const version = versions.get(path);
    return version === undefined ? { change, path } : { change, path, version };
  };
  return [
    ...added.map((path) => standing('added', path)),
    ...changed.map((path) => standing('changed', path)),
    ...removed.map((path): FileChange => ({ change: 'removed', path })),
  ];
}

/**
 * Two lists of changes, one after the other, as one: each path once. A file that came and went again stays in it as removed,
 * since the command that received the earlier list may have used it before it failed.
 */
export function foldChanges(earlier: readonly FileChange[], later: readonly FileChange[]): FileChange[] {
  const folded = new Map(earlier.map((each) => [each.path, each]));
  for (const each of later) {
    const before = folded.get(each.path)?.change;
    const change =
      before === 'added' && each.change === 'changed'
        ? 'added'
        : before === 'removed' && each.change === 'added'
          ? 'changed'
          : each.change;
    folded.set(each.path, { ...each, change });
  }
  return [...folded.values()];
}

/** The changes as a command reads them: one JSON object a line. */
export function* changeLines(changes: readonly FileChange[]): Generator<string> {
  for (const each of changes) yield `${JSON.stringify(each)}\n`;
}

/** The changes that lead from one state of a tree to a later one. States are named by their `publishedAtMs`. */
export interface ChangeSpan {
  /** Null where nothing stood before. */
  readonly since: number | null;
  readonly until: number;
  readonly changes: readonly FileChange[];
}

/** One span after the other as one; the later one alone where they do not meet. */
export function joinSpans(earlier: ChangeSpan | undefined, later: ChangeSpan): ChangeSpan {
  if (earlier?.until !== later.since) return later;
  const changes = foldChanges(earlier.changes, later.changes);
  return { since: earlier.since, until: later.until, changes };
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
