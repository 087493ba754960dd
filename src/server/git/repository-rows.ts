import { workbookKindOf } from '../checker/workbook-check.ts';
import type { Version, WorkbookRow } from '../http/library.ts';
import type { Heads } from './branch-reader.ts';
import type { HistoryReader, LastChange } from './history.ts';
import type { Commit } from './log.ts';
import { compareRows } from './merge-rows.ts';
import { formatVersionTime } from './names.ts';

function versionOf(commit: Commit, action: Version['action']): Version {
  return {
    id: commit.id,
    author: commit.author,
    action,
    createdAt: formatVersionTime(commit.committedAtSeconds),
    message: commit.message,
    parentId: commit.parentId,
  };
}

/** Makes versions that are shared by all the workbooks of a commit. */
function createVersions(): (change: LastChange) => Version {
  const versions = { add: new Map<Commit, Version>(), modify: new Map<Commit, Version>() };
  return ({ commit, action }) => {
    const known = versions[action];
    const version = known.get(commit) ?? versionOf(commit, action);
    known.set(commit, version);
    return version;
  };
}

/**
 * Makes the rows of one repository, sorted by id and branch.
 * @param integration full name of the repository
 * @throws MirrorError `service.failed` when its histories cannot be read
 */
export async function readRows(
  histories: HistoryReader,
  integration: string,
  heads: Heads,
): Promise<WorkbookRow[]> {
  const reads = [...heads].map(async ([branch, head]) => ({
    branch,
    history: await histories.of(branch, head),
  }));
  const versionFor = createVersions();
  const rows: WorkbookRow[] = [];
  for (const { branch, history } of await Promise.all(reads)) {
    for (const [path, change] of history) {
      rows.push({
        id: `${integration}/${path}`,
        integration,
        branch,
        path,
        version: versionFor(change),
        contentKey: `${change.blobId} ${workbookKindOf(path) ?? ''}`,
      });
    }
  }
  histories.keepOnly(heads);
  return rows.sort(compareRows);
}
