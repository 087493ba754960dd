import { type Finding, isSuccess } from '../model/workbook-check.ts';
import type { Standing, WorkbookRow } from '../service/library.ts';
import { type Checker, checkBatch } from './check-batch.ts';
import type { Git } from './git.ts';
import { type PendingCheck, pendingChecks, takeBatch } from './pending-checks.ts';
import type { Registry } from './registry.ts';

/** Remembers what was found, by {@link WorkbookRow.contentKey}. */
export interface Findings {
  readonly size: number;
  readonly get: (contentKey: string) => Finding | undefined;
  readonly set: (contentKey: string, finding: Finding) => void;
  /** Forgets all others. */
  readonly keepOnly: (contentKeys: ReadonlySet<string>) => void;
}

/** What is told of a file that failed. */
export interface FailedCheck {
  /** Full name of its repository. */
  readonly integration: string;
  readonly path: string;
  readonly versionId: string;
  readonly finding: Finding;
}

/** What the standings are made from. */
export interface StandingsOptions {
  readonly git: Git;
  readonly registry: Registry;
  readonly checker: Checker;
  readonly findings: Findings;
  readonly onFailure?: ((failed: FailedCheck) => void) | undefined;
}

/** What has been made of each workbook so far. */
export interface Standings {
  /** Has the files of these rows checked that were not yet, and of no others; does not wait for it. */
  readonly look: (rows: readonly WorkbookRow[]) => void;
  readonly of: (row: WorkbookRow) => Standing;
  /** Waits until nothing is left to be checked. */
  readonly idle: () => Promise<void>;
  /** Gives up what is under way, without waiting for it. */
  readonly close: () => void;
}

const SUCCESS: Standing = { status: 'success', processing: 0, failure: 0 };
const PROCESSING: Standing = { status: 'processing', processing: 1, failure: 0 };
const FAILURE: Standing = { status: 'failure', processing: 0, failure: 1 };

/** So many files of one repository are read by one git program. */
const BATCH_FILES = 32;
/** Findings of files that are listed no longer are kept up to this number and that of the listed ones. */
const SPARE_FINDINGS = 50_000;

/** Makes the standings; checks begin with the first {@link Standings.look}. */
export function createStandings(options: StandingsOptions): Standings {
  const { git, registry, checker, findings } = options;
  const underWay = new Set<string>();
  const stop = new AbortController();
  const lanes = new Set<Promise<void>>();
  let pending = new Map<string, PendingCheck[]>();
  let looked: readonly WorkbookRow[] = [];

  function conclude({ contentKey, row }: PendingCheck, finding: Finding): void {
    underWay.delete(contentKey);
    findings.set(contentKey, finding);
    if (isSuccess(finding)) return;
    const { integration, path, version } = row;
    options.onFailure?.({ integration, path, versionId: version.id, finding });
  }

  async function runLane(): Promise<void> {
    while (!stop.signal.aborted) {
      const taken = takeBatch(pending, BATCH_FILES);
      if (taken === null) return;
      for (const { contentKey } of taken.batch) underWay.add(contentKey);
      const gitDirectory = registry.gitDirectory(taken.repositoryId);
      await checkBatch({ git, checker, gitDirectory, signal: stop.signal }, taken.batch, conclude);
    }
  }

  function startLanes(): void {
    while (pending.size > lanes.size && lanes.size < checker.places) {
      const lane: Promise<void> = runLane().finally(() => lanes.delete(lane));
      lanes.add(lane);
    }
  }

  return {
    look(rows) {
      if (rows === looked || stop.signal.aborted) return;
      looked = rows;
      const isKnown = (key: string): boolean => findings.get(key) !== undefined || underWay.has(key);
      const ids = new Map(registry.list().map(({ id, full_name }) => [full_name, id]));
      pending = pendingChecks(rows, ids, isKnown);
      if (findings.size > rows.length + SPARE_FINDINGS) {
        findings.keepOnly(new Set(rows.flatMap(({ contentKey }) => contentKey ?? [])));
      }
      startLanes();
    },
    of({ contentKey }) {
      if (contentKey === undefined) return SUCCESS;
      const finding = findings.get(contentKey);
      if (finding === undefined) return PROCESSING;
      return isSuccess(finding) ? SUCCESS : FAILURE;
    },
    async idle() {
      while (lanes.size > 0) await Promise.all(lanes);
    },
    close() {
      stop.abort();
      pending.clear();
    },
  };
}

/** The standing of a workbook whose repository is being cloned or fetched: what there is of it may be old. */
export const BEING_FETCHED: Standing = PROCESSING;
