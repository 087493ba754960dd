import { setImmediate as othersFirst } from 'node:timers/promises';

import { MirrorError } from '../../lib/errors/errors.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { workbookKindOf } from '../checker/checker.ts';
import type { Version, WorkbookRow } from '../http/library.ts';
import type { Commit, Histories } from './history.ts';
import type { Heads } from './refs.ts';
import { versionAt, type WorkbookVersion } from './workbook-versions.ts';

/** Orders rows by id, then by branch. */
export function compareRows(left: WorkbookRow, right: WorkbookRow): number {
  return byCodeUnits(left.id, right.id) || byCodeUnits(left.branch, right.branch);
}

/** Git's empty tree, given as the parent of a first version: the specification says that `parent.id` is a string. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

/** Git knows no renames: they are a removal and an `add` (service specification, section 2.3). */
function versionOf(commit: Commit, parentId: string | null): Version {
  return {
    id: commit.id,
    author: commit.author,
    action: parentId === null ? 'add' : 'modify',
    createdAt: formatVersionTime(commit.committedAtSeconds),
    message: commit.message,
    parentId: parentId ?? EMPTY_TREE,
  };
}

/** Makes versions that are shared by the workbooks of a commit. */
function createVersions(commits: Histories['commits']) {
  const versions = new Map<string, Version>();
  return ({ id, parentId }: WorkbookVersion): Version => {
    const key = `${id} ${parentId}`;
    const known = versions.get(key);
    if (known !== undefined) return known;
    const commit = commits.get(id);
    if (commit === undefined) throw new MirrorError('service.failed', `git does not describe commit ${id}`);
    const version = versionOf(commit, parentId);
    versions.set(key, version);
    return version;
  };
}

/** Rows to make before yielding to other work: some milliseconds. */
const ROWS_AT_ONCE = 10_000;

/**
 * Makes the rows of one repository, sorted by id and branch.
 * @param integration full name of the repository
 * @throws MirrorError `service.failed` for a version that git does not describe
 */
export async function makeRows(
  { tableOf, commits }: Histories,
  integration: string,
  heads: Heads,
): Promise<WorkbookRow[]> {
  const branches = [...heads]
    .map(([branch, head]) => ({ branch, table: tableOf(head) }))
    .sort((left, right) => byCodeUnits(left.branch, right.branch));
  const paths = new Set<string>();
  for (const table of new Set(branches.map((branch) => branch.table)))
    for (const bucket of table) for (const path of bucket.keys()) paths.add(path);
  const versionFor = createVersions(commits);
  const rows: WorkbookRow[] = [];
  let looked = 0;
  for (const path of [...paths].sort(byCodeUnits)) {
    for (const { branch, table } of branches) {
      looked += 1;
      if (looked % ROWS_AT_ONCE === 0) await othersFirst();
      const found = versionAt(table, path);
      if (found === undefined) continue;
      rows.push({
        id: `${integration}/${path}`,
        integration,
        branch,
        path,
        version: versionFor(found),
        contentKey: `${found.blobId} ${workbookKindOf(path)}`,
      });
    }
  }
  return rows;
}

/** The last second that is written with four digits of the year, as ISO 8601 has them, in seconds since 1970. */
const LAST_SECOND = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

/**
 * Writes an instant as v1 does: no fraction (section 2.3). A commit may claim any time, or none: a time that cannot be written becomes
 * the nearest one that can; no number becomes 1970, as git shows it.
 * @param seconds whole seconds since 1970
 */
export function formatVersionTime(seconds: number): string {
  const written = Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds, 0), LAST_SECOND);
  return new Date(written * 1000).toISOString().replace('.000Z', '+00:00');
}
