import type { WorkbookRow } from '../service/library.ts';
import type { Git } from './git.ts';
import { branchKey, createHistoryCache, type LastChange } from './history.ts';
import { formatVersionTime } from './names.ts';
import { readHeads } from './refs.ts';
import type { Registry } from './registry.ts';

/** The workbooks of all repositories. */
export interface WorkbookListing {
  /** All rows as they are now, sorted by id and branch; the same array as long as no branch has moved. */
  readonly rows: () => Promise<readonly WorkbookRow[]>;
}

interface BranchHead {
  readonly repositoryId: string;
  readonly integration: string;
  readonly branch: string;
  readonly head: string;
}

/** Compares by code unit: the same order everywhere, whatever the language of the machine. */
function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function versionOf({ commit, action }: LastChange): WorkbookRow['version'] {
  return {
    id: commit.id,
    author: commit.author,
    action,
    createdAt: formatVersionTime(commit.committedAtSeconds),
    message: commit.message,
    parentId: commit.parentId,
  };
}

/** Makes a listing that remembers what it has read. */
export function createWorkbookListing(git: Git, registry: Registry): WorkbookListing {
  const histories = createHistoryCache(git);
  let latest: { readonly state: string; readonly rows: readonly WorkbookRow[] } = { state: '[]', rows: [] };

  async function readState(): Promise<BranchHead[]> {
    const heads = registry.list().map(async ({ id, full_name }) => {
      const branches = await readHeads(git, registry.gitDirectory(id));
      return [...branches].map(([branch, head]) => ({
        repositoryId: id,
        integration: full_name,
        branch,
        head,
      }));
    });
    return (await Promise.all(heads)).flat();
  }

  async function rowsOf({ repositoryId, integration, branch, head }: BranchHead): Promise<WorkbookRow[]> {
    const history = await histories.of(repositoryId, registry.gitDirectory(repositoryId), branch, head);
    return [...history].map(([path, change]) => ({
      id: `${integration}/${path}`,
      integration,
      branch,
      path,
      version: versionOf(change),
    }));
  }

  return {
    async rows() {
      const heads = await readState();
      const state = JSON.stringify(heads);
      if (state === latest.state) return latest.rows;
      const rows = (await Promise.all(heads.map(rowsOf))).flat();
      rows.sort((left, right) => compare(left.id, right.id) || compare(left.branch, right.branch));
      histories.keepOnly(new Set(heads.map(({ repositoryId, branch }) => branchKey(repositoryId, branch))));
      latest = { state, rows };
      return rows;
    },
  };
}
