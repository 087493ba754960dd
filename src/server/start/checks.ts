import { join } from 'node:path';

import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { createChecker } from '../checker/checker.ts';
import { openFindings } from '../checker/findings.ts';
import type { GitLibrary, GitLibraryOptions } from '../git/library.ts';
import type { FailedCheck } from '../git/processing-status.ts';
import type { Finding } from '../checker/workbook-check.ts';
import { log } from './log.ts';

/** Name of the file, in the service's directory, in which findings are remembered. */
const FINDINGS_NAME = 'checked-workbooks.log';
/** How long the service waits at its start until what it holds is checked, in milliseconds: clients then see it finished. */
const START_LIMIT_MS = 3000;

const REASONS: Readonly<Record<Finding, string>> = {
  opened: 'it can be opened',
  protected: 'it is protected by a password',
  sound: 'it is too large to be opened',
  foreign: 'it is not a workbook, although it is named like one',
  damaged: 'it is damaged',
  unread: 'git cannot read it',
};

/** The checks of the embedded service. */
interface ServeChecks {
  readonly checks: NonNullable<GitLibraryOptions['checks']>;
  readonly close: () => Promise<void>;
}

function tellFailure({ integration, path, versionId, finding }: FailedCheck): void {
  const version = versionId.slice(0, 12);
  log(`The workbook ${integration}/${path} failed, version ${version}: ${REASONS[finding]}.`, 'warn');
}

/** Opens the checker of a service's workbooks, and the memory of its findings in the service's directory. */
export async function openChecks(directory: string): Promise<ServeChecks> {
  const checker = createChecker();
  const findings = await openFindings(join(directory, FINDINGS_NAME));
  return {
    checks: { checker, findings, onFailure: tellFailure },
    async close() {
      checker.close();
      await findings.close();
    },
  };
}

/** Begins to check all workbooks, and waits a moment for it. Those that cannot be read are reported when they are requested. */
export async function checkAhead(library: GitLibrary): Promise<void> {
  const checked = library.checkAll().catch(() => undefined);
  await waitAtMost(checked, START_LIMIT_MS);
}
