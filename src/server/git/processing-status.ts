import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { checkWorkbook, type Finding } from '../checker/checker.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import type { ProcessingStatus, WorkbookRow } from '../http/library.ts';
import type { Git } from './git.ts';
import type { Registry } from './repositories.ts';
import type { Tell } from './tell.ts';

export const SUCCESS: ProcessingStatus = { status: 'success', processing: 0, failure: 0 };
export const PROCESSING: ProcessingStatus = { status: 'processing', processing: 1, failure: 0 };
const FAILURE: ProcessingStatus = { status: 'failure', processing: 0, failure: 1 };

/** The outcome of a check; `unread`: Git could not read the file. */
type Outcome = Finding | 'unread';

const REASONS: Readonly<Record<Exclude<Outcome, 'workbook'>, string>> = {
  foreign: 'it is not a workbook, although it is named like one',
  damaged: 'it is damaged',
  unread: 'git cannot read it',
};

/**
 * Gives the status of each workbook. Files are checked one at a time, each content once, the newest versions first.
 * @param tell receives why a workbook failed
 */
export function createProcessingStatuses(git: Git, registry: Registry, tell: Tell) {
  const stop = new AbortController();
  const { signal } = stop;
  /** By {@link WorkbookRow.contentKey}. */
  let findings = new Map<string, Outcome>();
  let looked: readonly WorkbookRow[] = [];
  /** The newest version last. */
  let pending: WorkbookRow[] = [];

  async function findingOf({ contentKey = '', integration, path }: WorkbookRow): Promise<Outcome> {
    const id = registry.list().find(({ full_name }) => full_name === integration)?.id ?? '';
    const [blobId = ''] = contentKey.split(' ');
    // The error is not lost: a request for the file reports it again.
    return checkWorkbook(git, registry.gitDirectory(id), blobId, path, signal).catch(() => 'unread');
  }

  /** Checks pending versions, including those added while it runs. */
  const check = shareWork(async () => {
    for (let row = pending.pop(); row !== undefined; row = pending.pop()) {
      const { contentKey = '', integration, path, version } = row;
      const before = findings.get(contentKey);
      if (before !== undefined && before !== 'unread') continue;
      const finding = await findingOf(row);
      if (signal.aborted) return;
      findings.set(contentKey, finding);
      if (finding === 'workbook' || finding === before) continue;
      const about = `The workbook ${integration}/${path} failed, version ${version.id.slice(0, 12)}`;
      tell(`${about}: ${REASONS[finding]}.`, 'warn');
    }
  });

  return {
    /** Starts checking the files of these rows, and no others. Files that Git could not read are tried again. */
    look(rows: readonly WorkbookRow[]): void {
      if (rows === looked || signal.aborted) return;
      looked = rows;
      const listed = new Set(rows.map(({ contentKey }) => contentKey));
      findings = new Map([...findings].filter(([contentKey]) => listed.has(contentKey)));
      pending = rows
        .filter(({ contentKey = '' }) => (findings.get(contentKey) ?? 'unread') === 'unread')
        .sort((left, right) => byCodeUnits(left.version.createdAt ?? '', right.version.createdAt ?? ''));
      void check();
    },
    of: ({ contentKey = '' }: WorkbookRow): ProcessingStatus => {
      const finding = findings.get(contentKey);
      if (finding === undefined) return PROCESSING;
      return finding === 'workbook' ? SUCCESS : FAILURE;
    },
    /** Waits until nothing is left to be checked. */
    idle: check,
    /** Ends the running check, without waiting for it. */
    close: (): void => stop.abort(),
  };
}
