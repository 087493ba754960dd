import { type Finding, isSuccess } from '../checker/workbook-check.ts';
import type { ProcessingStatus, WorkbookRow } from '../http/library.ts';
import type { Checker } from './check-lanes.ts';
import { createCheckLanes } from './check-lanes.ts';
import type { Git } from './git.ts';
import { type PendingCheck, pendingChecks } from './pending-checks.ts';
import type { Registry } from './registry.ts';

/** Remembers what was found, by {@link WorkbookRow.contentKey}. */
export interface Findings {
  readonly size: number;
  readonly get: (contentKey: string) => Finding | undefined;
  readonly set: (contentKey: string, finding: Finding) => void;
  /** Forgets all others. */
  readonly keepOnly: (contentKeys: ReadonlySet<string>) => void;
}

/** A file that failed. */
export interface FailedCheck {
  /** Full name of its repository. */
  readonly integration: string;
  readonly path: string;
  readonly versionId: string;
  readonly finding: Finding;
}

export interface ProcessingStatusesOptions {
  readonly git: Git;
  readonly registry: Registry;
  readonly checker: Checker;
  readonly findings: Findings;
  readonly onFailure?: ((failed: FailedCheck) => void) | undefined;
  /** How long a file waits that could not be checked, in milliseconds; each time twice as long. */
  readonly retryMs?: number | undefined;
}

export const SUCCESS: ProcessingStatus = { status: 'success', processing: 0, failure: 0 };
/** Of a repository that is being cloned or fetched, too: what there is of it may be old. */
export const PROCESSING: ProcessingStatus = { status: 'processing', processing: 1, failure: 0 };
const FAILURE: ProcessingStatus = { status: 'failure', processing: 0, failure: 1 };

const RETRY_MS = 5 * 60_000;
/** Findings of files that are listed no longer are kept up to this number and that of the listed ones. */
const SPARE_FINDINGS = 50_000;

/** Tells what has been made of each workbook so far; checks begin with the first look. */
export function createProcessingStatuses(options: ProcessingStatusesOptions) {
  const { git, registry, checker, findings } = options;
  let looked: readonly WorkbookRow[] = [];
  let isClosed = false;

  const postponed = createPostponed(options.retryMs ?? RETRY_MS, () => choose());

  function conclude({ contentKey, row }: PendingCheck, finding: Finding | null): void {
    if (finding === null) {
      postponed.add(contentKey);
      return;
    }
    postponed.delete(contentKey);
    findings.set(contentKey, finding);
    if (isSuccess(finding)) return;
    const { integration, path, version } = row;
    options.onFailure?.({ integration, path, versionId: version.id, finding });
  }

  const lanes = createCheckLanes({ git, registry, checker, conclude });

  /** Chooses anew what is to be checked. */
  function choose(): void {
    if (isClosed) return;
    const isKnown = (key: string): boolean =>
      findings.get(key) !== undefined || lanes.isUnderWay(key) || postponed.has(key);
    const ids = new Map(registry.list().map(({ id, full_name }) => [full_name, id]));
    lanes.start(pendingChecks(looked, ids, isKnown));
  }

  return {
    /** Has the files of these rows checked that were not yet, and of no others; does not wait for it. */
    look(rows: readonly WorkbookRow[]): void {
      if (rows === looked || isClosed) return;
      looked = rows;
      choose();
      if (findings.size > rows.length + SPARE_FINDINGS) {
        findings.keepOnly(new Set(rows.flatMap(({ contentKey }) => contentKey ?? [])));
      }
    },
    of: ({ contentKey }: WorkbookRow): ProcessingStatus => {
      if (contentKey === undefined) return SUCCESS;
      const finding = findings.get(contentKey);
      if (finding === undefined) return PROCESSING;
      return isSuccess(finding) ? SUCCESS : FAILURE;
    },
    /** Waits until nothing is left to be checked. */
    idle: lanes.idle,
    /** Gives up what is under way, without waiting for it. */
    close(): void {
      isClosed = true;
      lanes.close();
      postponed.close();
    },
  };
}

/** A file waits no longer than so many times the first time. */
const MOST_TIMES = 16;

interface Wait {
  readonly times: number;
  /** By the clock of `performance`; null where it waits no longer. */
  readonly untilMs: number | null;
}

/**
 * Lists files that could not be checked, each until its time comes.
 * @param firstMs how long a file waits the first time, in milliseconds
 * @param onDue called when files wait no longer, once for many of them
 */
function createPostponed(firstMs: number, onDue: () => void) {
  const waits = new Map<string, Wait>();
  let timer: NodeJS.Timeout | undefined;

  function end(): void {
    timer = undefined;
    const nowMs = performance.now();
    for (const [contentKey, { times, untilMs }] of waits)
      if (untilMs !== null && untilMs <= nowMs) waits.set(contentKey, { times, untilMs: null });
    if ([...waits.values()].some(({ untilMs }) => untilMs !== null)) start();
    onDue();
  }

  function start(): void {
    timer ??= setTimeout(end, firstMs).unref();
  }

  return {
    /** Whether a file still waits. */
    has: (contentKey: string): boolean => typeof waits.get(contentKey)?.untilMs === 'number',
    /** Has a file wait, each time twice as long. */
    add(contentKey: string): void {
      const times = Math.min(2 * (waits.get(contentKey)?.times ?? 0.5), MOST_TIMES);
      waits.set(contentKey, { times, untilMs: performance.now() + times * firstMs });
      start();
    },
    delete: (contentKey: string): boolean => waits.delete(contentKey),
    close: (): void => clearTimeout(timer),
  };
}
