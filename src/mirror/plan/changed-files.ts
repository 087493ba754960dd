import { type ManifestFile, treeChanges } from '../store/manifest.ts';

/** What a publish did to one file of a tree. */
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
 * since whoever was given the earlier list may have taken it in before failing.
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
