import { setImmediate as othersFirst } from 'node:timers/promises';

import { MirrorError } from '../../lib/errors/errors.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { workbookKindOf } from '../checker/checker.ts';
import type { Version, WorkbookRow } from '../http/library.ts';
import type { Histories } from './history.ts';
import type { Heads } from './refs.ts';
import type { WorkbookVersion } from './workbook-versions.ts';

/** Orders rows by id, then by branch. */
export function compareRows(left: WorkbookRow, right: WorkbookRow): number {
  return byCodeUnits(left.id, right.id) || byCodeUnits(left.branch, right.branch);
}

/** Git's empty tree, given as the parent of a first version: the specification says that `parent.id` is a string. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

/** Git knows no renames: they are a removal and an `add` (service specification, section 2.3). */
function versionOf({ id, parentId }: WorkbookVersion, commits: Histories['commits']): Version {
  const commit = commits.get(id);
  if (commit === undefined) throw new MirrorError('service.failed', `git does not describe commit ${id}`);
  return {
    id,
    author: commit.author,
    action: parentId === null ? 'add' : 'modify',
    createdAt: formatVersionTime(commit.committedAtSeconds),
    message: commit.message,
    parentId: parentId ?? EMPTY_TREE,
  };
}

/**
 * Makes the rows of one repository, sorted by id and branch. Branches share the version of a workbook.
 * @param integration full name of the repository
 * @throws MirrorError `service.failed` for a head whose workbooks are not known, or a version that git does not describe
 */
export async function makeRows(
  { tables, commits }: Histories,
  integration: string,
  heads: Heads,
): Promise<readonly WorkbookRow[]> {
  const branches = [...heads].sort(([left], [right]) => byCodeUnits(left, right));
  const paths = new Set<string>();
  for (const [, head] of branches) {
    const table = tables.get(head);
    if (table === undefined)
      throw new MirrorError('service.failed', `the workbooks of ${head} are not known`);
    for (const path of table.keys()) paths.add(path);
  }
  const versions = new Map<WorkbookVersion, Version>();
  const rows: WorkbookRow[] = [];
  for (const [index, path] of [...paths].sort(byCodeUnits).entries()) {
    // Every few milliseconds, other work has its turn.
    if (index % 100 === 0) await othersFirst();
    for (const [branch, head] of branches) {
      const found = tables.get(head)?.get(path);
      if (found === undefined) continue;
      const version = versions.get(found) ?? versionOf(found, commits);
      versions.set(found, version);
      rows.push({
        id: `${integration}/${path}`,
        integration,
        branch,
        path,
        version,
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
