import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import type { Finding } from '../checker/checker.ts';
import type { GitLibrary } from '../git/library.ts';
import type { FailedCheck } from '../git/processing-status.ts';
import { log } from './log.ts';

/** How long the service waits at its start until what it holds is checked, in milliseconds: clients then see it finished. */
const START_LIMIT_MS = 3000;

const REASONS: Readonly<Record<Finding, string>> = {
  workbook: 'it can be opened',
  foreign: 'it is not a workbook, although it is named like one',
  damaged: 'it is damaged',
  unread: 'git cannot read it',
};

/** Logs why a workbook failed. */
export function tellFailure({ integration, path, versionId, finding }: FailedCheck): void {
  const version = versionId.slice(0, 12);
  log(`The workbook ${integration}/${path} failed, version ${version}: ${REASONS[finding]}.`, 'warn');
}

/** Begins to check all workbooks, and waits a moment for it. Those that cannot be read are reported when they are requested. */
export async function checkAhead(library: GitLibrary): Promise<void> {
  const checked = library.checkAll().catch(() => undefined);
  await waitAtMost(checked, START_LIMIT_MS);
}
