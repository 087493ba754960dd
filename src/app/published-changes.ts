import type { Published } from '../mirror/plan/record.ts';
import type { HookTree } from '../mirror/state/state.ts';
import { type ManifestFile, treeChanges } from '../mirror/store/manifest.ts';

/** A tree as the command receives it. */
export function hookTree({
  repository,
  branch,
  publishedAtMs,
  fingerprint,
}: Pick<Published, 'repository' | 'branch' | 'publishedAtMs' | 'fingerprint'>): HookTree {
  return {
    repositoryId: repository.id,
    repository: repository.fullName,
    branch,
    publishedAtMs,
    fingerprint,
  };
}

/** A published change of one file of a tree. */
export interface FileChange {
  readonly change: 'added' | 'changed' | 'removed';
  /** Path below the tree, with slashes. */
  readonly path: string;
  /** The file's present version, if it is a workbook; absent for other and removed files. */
  readonly version?: string | undefined;
}

/** The files that differ between two manifests: added, then changed, then removed files. */
export function changedFiles(before: readonly ManifestFile[], after: readonly ManifestFile[]): FileChange[] {
  const { added, changed, removed } = treeChanges(before, after);
  const versions = new Map(after.map(({ path, workbook }) => [path, workbook?.versionId]));
  const each = (change: FileChange['change'], paths: readonly string[]): FileChange[] =>
    paths.map((path) => ({ change, path, version: versions.get(path) }));
  return [...each('added', added), ...each('changed', changed), ...each('removed', removed)];
}

/** The changes in the form for a command: one JSON object per line. */
export function* changeLines(changes: readonly FileChange[]): Generator<string> {
  for (const each of changes) yield `${JSON.stringify(each)}\n`;
}
