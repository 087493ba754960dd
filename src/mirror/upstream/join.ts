import type { Repository, WorkbookRow } from './listing.ts';
import type { WorkbookList } from './workbooks.ts';

/** Rows, each with the full name of its repository. */
export interface JoinedRows {
  readonly rows: readonly WorkbookRow[];
  /** A sentence each. */
  readonly problems: readonly string[];
}

interface JoinedPage {
  readonly rows: readonly WorkbookRow[];
  /** Names of repositories that are not listed. */
  readonly unlisted: readonly string[];
}

/**
 * Joins rows to repositories by full name or, where an installation sends that instead, by id. What was joined is kept: as long
 * as a page and the repositories are the same values, so are its rows.
 */
export class RowJoiner {
  private repositories: readonly Repository[] = [];
  private names: ReadonlyMap<string, string> = new Map();
  private listed: ReadonlySet<string> = new Set();
  private pages = new WeakMap<readonly WorkbookRow[], JoinedPage>();
  private lists = new WeakMap<readonly WorkbookRow[], JoinedRows>();

  /** Joins the rows of a list. */
  join(repositories: readonly Repository[], list: Pick<WorkbookList, 'rows' | 'pages'>): JoinedRows {
    this.learn(repositories);
    const known = this.lists.get(list.rows);
    if (known !== undefined) return known;
    const pages = list.pages.map((rows) => this.joinPage(rows));
    const isSame = pages.every((page, index) => page.rows === list.pages[index]);
    const unlisted = new Set(pages.flatMap((page) => page.unlisted));
    const joined = {
      rows: isSame ? list.rows : pages.flatMap((page) => page.rows),
      problems: [...unlisted].map(
        (name) => `the list of workbooks names the repository ${JSON.stringify(name)}, which is not listed`,
      ),
    };
    this.lists.set(list.rows, joined);
    return joined;
  }

  private learn(repositories: readonly Repository[]): void {
    if (repositories === this.repositories) return;
    this.repositories = repositories;
    this.names = new Map(repositories.map((repository) => [repository.id, repository.fullName]));
    this.listed = new Set(repositories.map((repository) => repository.fullName));
    this.pages = new WeakMap();
    this.lists = new WeakMap();
  }

  private joinPage(rows: readonly WorkbookRow[]): JoinedPage {
    const known = this.pages.get(rows);
    if (known !== undefined) return known;
    const unlisted = new Set<string>();
    const named = rows.map((row) => {
      if (this.listed.has(row.repository)) return row;
      const fullName = this.names.get(row.repository);
      if (fullName === undefined) unlisted.add(row.repository);
      return fullName === undefined ? row : withRepository(row, fullName);
    });
    const isSame = named.every((row, index) => row === rows[index]);
    const joined = { rows: isSame ? rows : named, unlisted: [...unlisted] };
    this.pages.set(rows, joined);
    return joined;
  }
}

function withRepository(row: WorkbookRow, repository: string): WorkbookRow {
  return { ...row, repository };
}
