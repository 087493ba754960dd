import { sinceMs } from '../../lib/time/monotonic.ts';
import { isDeepStrictEqual } from 'node:util';
import { type ErrorCode, EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import {
  type Action,
  type ActionResult,
  type EndedResult,
  type HoldAction,
  holdRule,
  isHeld,
  isPlannedHold,
} from '../plan/actions.ts';
import { missingSentence } from '../plan/contradictions.ts';
import type { Held, ListedTarget, Outcome, TargetRecord } from '../plan/record.ts';
import {
  type Selection,
  type SelectionCheck,
  selectsNothing,
  type UnmatchedPattern,
} from '../plan/selection.ts';
import type { ReportedFailures } from '../state/schemas.ts';
import { checkTargetList } from '../store/documents.ts';
import { type Cached, cachedSentence } from '../upstream/answers.ts';
import { type Listing, targetKey, type WorkbookRow } from '../upstream/listing.ts';
import type { Manifest } from '../store/manifest.ts';
import type { PassContext, Pull } from './context.ts';
import type { Changes } from './new-manifest.ts';
import type { Received } from './unpack.ts';
import type { FlaggedWorkbooks, PassEvent, PassEventFields, PassFinished, Trigger } from './events.ts';

/** How many actions of each kind a plan has. */
export function countsOf(plan: readonly Action[]): PassEventFields['pass.planned'] {
  const count = (kind: Action['kind']): number =>
    plan.filter((action) => action.kind === kind && !(kind === 'keep' && isPlannedHold(action))).length;
  const hold = plan.filter(isPlannedHold).length;
  return { pull: count('pull'), keep: count('keep'), hold, retire: count('retire') };
}

/** The numbers of a pass, for its last event. @param durationMs milliseconds */
export function summarise(
  trigger: Trigger,
  listing: Listing,
  results: readonly ActionResult[],
  durationMs: number,
): PassFinished {
  const count = (test: (result: ActionResult) => boolean): number => results.filter(test).length;
  return {
    trigger,
    durationMs,
    targets: results.length,
    pulled: count(({ outcome }) => outcome.kind === 'pulled'),
    changed: count(({ changedFiles }) => changedFiles > 0),
    tried: count(({ action, outcome }) => action.kind === 'pull' && outcome.kind !== 'unfinished'),
    failed: count(({ outcome }) => outcome.kind === 'failed'),
    held: count(isHeld),
    leased: count(({ action, outcome }) => outcome.kind === 'held' && action.reason === 'lease'),
    notYetRetried: count(({ action }) => action.reason === 'backing-off' || action.reason === 'quarantined'),
    missing: count(({ outcome }) => outcome.kind === 'missing'),
    downloadedBytes: results.reduce((sum, result) => sum + result.downloadedBytes, 0),
    changedFiles: results.reduce((sum, result) => sum + result.changedFiles, 0),
    pulling: count(({ outcome }) => outcome.kind === 'unfinished' && outcome.hasBegun),
    waiting: count(({ outcome }) => outcome.kind === 'unfinished' && !outcome.hasBegun),
    processing: (listing.workbooks ?? []).filter((row) => row.processing > 0).length,
  };
}

/**
 * The exit code of a pass: 0 only if the settings select something (if there is anything), nothing failed and nothing is held.
 * `whyNotWell` judges the targets as they are after the pass.
 */
export function exitCodeOfPass(
  results: readonly Pick<ActionResult, 'action' | 'outcome'>[],
  selection: SelectionCheck,
  { repositoriesComplete }: Pick<Listing, 'repositoriesComplete'>,
): ExitCode {
  if (results.some(({ outcome }) => outcome.kind === 'failed' && outcome.error.code === 'internal.defect')) {
    return EXIT_CODES.defect;
  }
  const isIncomplete = results.some((result) => result.outcome.kind === 'failed' || isHeld(result));
  // A workbook with an unreadable row is listed, but not mirrored.
  return isIncomplete || !repositoriesComplete || selectsNothing(selection)
    ? EXIT_CODES.incomplete
    : EXIT_CODES.ok;
}

/** Failures of the service or of the disk, which every target meets while they last. */
const SHARED_FAILURES: ReadonlySet<string> = new Set<ErrorCode>([
  'service.unreachable',
  'service.timeout',
  'service.busy',
  'disk.full',
  'directory.replaced',
]);

/**
 * Whether a finished pass mirrored everything that can be mirrored (manual, "Exit codes"): every selected target is
 * verified, or failed, is held or in quarantine for a reason of its own.
 */
export function isAllThatCanBe(
  results: readonly Pick<ActionResult, 'action' | 'outcome'>[],
  selection: SelectionCheck,
): boolean {
  const isShared = ({ action, outcome }: Pick<ActionResult, 'action' | 'outcome'>): boolean =>
    outcome.kind === 'unfinished' ||
    (outcome.kind === 'held' && holdRule(action.reason).isShared === true) ||
    (outcome.kind === 'failed' && SHARED_FAILURES.has(outcome.error.code));
  return !results.some(isShared) && !selectsNothing(selection);
}

/**
 * The lost targets that a later pass will still restore. A target does not count if a complete listing lacks it, the settings
 * do not select it, or the service has no contents of it.
 */
export function stillAwaited(
  lost: readonly ListedTarget[],
  { repositoriesComplete }: Listing,
  results: readonly ActionResult[],
): readonly ListedTarget[] {
  if (!repositoriesComplete) return lost;
  const outcomes = new Map(
    results.map(({ action, outcome }) => [targetKey(action.target), outcome.kind] as const),
  );
  return lost.filter((target) => {
    const outcome = outcomes.get(targetKey(target));
    return outcome !== undefined && outcome !== 'absent' && outcome !== 'retired';
  });
}

/** Reports once that a cache answered in place of the service, and not again because its answer has another age. */
export function reportCached(
  { reported, emit, now }: Pick<PassContext, 'reported' | 'emit' | 'now'>,
  subject: 'cached lists' | 'cached contents',
  cached: Cached | null,
): void {
  for (const each of reported.news(subject, cached === null ? [] : [cached], ({ via }) => via ?? ''))
    emit({ name: 'listing.problem', problem: cachedSentence(each, now()) });
}

/** The faults of the service's lists, including a cache that gave them; a sentence each. @param nowMs milliseconds since the epoch */
export function problemsOf({ problems, cached }: Listing, nowMs: number): readonly string[] {
  return cached === null ? problems : [...problems, cachedSentence(cached, nowMs)];
}

/**
 * Compares the workbooks that the service reports as failed with those reported before, so that every failure is reported
 * once for a version and count, and once more when it clears.
 * @param isComplete whether absence from the rows means that the workbook is gone
 */
export function reportFailures(
  reported: ReportedFailures,
  rows: readonly WorkbookRow[],
  isComplete: boolean,
): { readonly events: readonly PassEvent[]; readonly reported: ReportedFailures } {
  const events: PassEvent[] = [];
  const next: Record<string, ReportedFailures[string]> = isComplete ? {} : { ...reported };
  const isAnyReported = Object.keys(reported).length > 0;
  for (const { id, versionId, branch, failure } of rows) {
    // There may be very many rows, and hardly any is worth a key.
    if (failure === 0 && !isAnyReported) continue;
    const key = `${branch}\n${id}`;
    const before = reported[key];
    const workbook = { workbookId: id, versionId, branch };
    if (failure > 0) {
      next[key] = { versionId, count: failure };
      const isKnown = before?.versionId === versionId && before.count === failure;
      if (!isKnown) events.push({ name: 'upstream.workbook_failed', ...workbook, count: failure });
    } else if (before !== undefined) {
      delete next[key];
      events.push({ name: 'upstream.workbook_recovered', ...workbook });
    }
  }
  return { events, reported: next };
}

/** How many flagged workbooks are named; the others are only counted. */
const FLAGGED_NAMED = 100;

/** The fields of `listing.read`: the size of a listing, and the workbooks that the service flags in it. */
export function flaggedIn({
  repositories,
  repositoriesComplete,
  workbooks,
}: Listing): PassEventFields['listing.read'] {
  const rows = workbooks ?? [];
  return {
    isWhole: repositoriesComplete,
    repositories: repositories.length,
    workbooks: workbooks?.length ?? null,
    processing: named(rows.filter((row) => row.processing > 0)),
    failed: named(rows.filter((row) => row.failure > 0)),
  };
}

function named(rows: readonly WorkbookRow[]): FlaggedWorkbooks {
  const first = rows.slice(0, FLAGGED_NAMED);
  return {
    count: rows.length,
    first: first.map(({ id, versionId, branch }) => ({ workbookId: id, versionId, branch })),
  };
}

/**
 * Reports the targets that are gone with their manifests, each once while that lasts: nothing else on the disk shows
 * them, and the plan takes them for new ones.
 */
export async function reportLost({
  store,
  emit,
  reported,
}: Pick<PassContext, 'store' | 'emit' | 'reported'>): Promise<readonly ListedTarget[]> {
  const { lost, inventoryProblem: problem } = await checkTargetList(store);
  if (problem !== null) emit({ name: 'inventory.damaged', problem });
  const paths = lost.map(({ path }) => path);
  for (const target of reported.news('lost', paths)) emit({ name: 'target.lost', target });
  return lost;
}

/** Reports faults of the lists, and which of the selected workbooks failed. @returns the faults, a sentence each */
export async function reportUpstream(
  context: Pick<PassContext, 'reported' | 'emit' | 'now' | 'state'>,
  listing: Listing,
  { selects }: Pick<Selection, 'selects'>,
): Promise<readonly string[]> {
  for (const problem of context.reported.news('problems', listing.problems))
    context.emit({ name: 'listing.problem', problem });
  reportCached(context, 'cached lists', listing.cached);
  const { workbooks, workbooksComplete } = listing;
  const problems = problemsOf(listing, context.now());
  if (workbooks === null) return problems;
  const before = await context.state.read('reported-failures');
  if (before === null) return problems;
  const rows = workbooks.filter(
    ({ failure, repository, branch }) => failure === 0 || selects(repository, branch),
  );
  const { events, reported } = reportFailures(before, rows, workbooksComplete);
  for (const event of events) context.emit(event);
  if (!isDeepStrictEqual(reported, before)) await context.state.save('reported-failures', reported);
  return problems;
}

/** Reports trees whose manifests cannot be read and that no action is about. @returns a sentence each */
export function reportUnplanned(
  { emit, reported }: Pick<PassContext, 'emit' | 'reported'>,
  paths: readonly string[],
): readonly string[] {
  const problems = paths.map(
    (path) =>
      `the manifest of ${path} cannot be read, and nothing that is mirrored belongs there: \`forget\` moves its tree to the history`,
  );
  for (const problem of reported.news('unplanned', problems)) emit({ name: 'listing.problem', problem });
  return problems;
}

/** Reports what the settings select, and which of their patterns match nothing. */
export function reportSelection(
  { emit, reported }: Pick<PassContext, 'emit' | 'reported'>,
  selection: SelectionCheck,
): void {
  emit({ name: 'selection.checked', ...selection });
  const { repositories, unmatched } = selection;
  const keyOf = ({ setting, pattern }: UnmatchedPattern): string => JSON.stringify([setting, pattern]);
  for (const each of reported.news('unmatched', unmatched, keyOf))
    emit({ name: 'selection.unmatched', ...each });
  if (reported.news('empty', selectsNothing(selection) ? [''] : []).length > 0)
    emit({ name: 'selection.empty', repositories, unmatched });
}

/** The events of the end of an action, as far as it is news. @param before the record before it */
export function* newsOfEnd(
  action: Action,
  outcome: Outcome,
  before: TargetRecord,
  after: TargetRecord,
): Generator<PassEvent> {
  const target = action.path;
  const { failure, held } = after;
  if (outcome.kind === 'failed' && failure !== null) {
    const { code, message, hint, attempts, nextAttemptAtMs } = failure;
    yield { name: 'target.failed', target, code, message, hint, attempts, nextAttemptAtMs };
  }
  const isMoved = held?.subject === 'moved';
  if (held !== null && !isMoved && !isSameHeld(before.held, held)) {
    const { subject, deletions, of, digest, first } = held;
    yield { name: 'deletion.held', target, subject, deletions, of, digest, first };
  }
  if (outcome.kind === 'missing') yield { name: 'target.missing', target, passes: after.missingPasses };
  if (outcome.kind === 'absent' && before.absentSinceMs === null) yield { name: 'target.absent', target };
  if (action.kind === 'hold' && (outcome.kind === 'held' || isMoved) && isNewHold(action, before))
    yield { name: 'target.held', target, reason: action.reason, untilMs: action.untilMs };
}

/** Whether a hold differs from the last decision, and no other event reports it. */
function isNewHold({ reason }: HoldAction, { decisions: [last] }: TargetRecord): boolean {
  return holdRule(reason).isReportedElsewhere !== true && (last?.kind !== 'hold' || last.reason !== reason);
}

/** An unchanged deletion was reported when it was first held. */
function isSameHeld(before: Held | null, { subject, digest, deletions }: Held): boolean {
  return before?.subject === subject && before.digest === digest && before.deletions === deletions;
}

/** The result of a pull, and the events to emit once it is recorded. */
export interface Pulled extends EndedResult {
  readonly news?: readonly PassEvent[];
}

/** The result and the events for contents that were compared and, if they differed, published. */
export async function pulled(
  { context: { store }, action }: Pull,
  { rewritten, downloadedBytes, isWhole, cached }: Received,
  { previous, ...changes }: Changes,
  manifest: Manifest,
  method: string,
  beganMs: number,
): Promise<Pulled> {
  const { path: target, reason } = action;
  const { skipped, publishedAtMs, missing = [] } = manifest;
  const added = changes.added.length;
  const changed = changes.changed.length + rewritten.length;
  const removed = changes.removed.length;
  const changedFiles = added + changed + removed;
  const news: PassEvent[] = [];
  const [first] = skipped;
  if (first !== undefined && changedFiles > 0)
    news.push({ name: 'target.skipped_entries', target, count: skipped.length, first: first.path });
  if (missing.length > 0 && !isDeepStrictEqual(missing, previous?.missing))
    news.push({ name: 'listing.problem', problem: `${target}: ${missingSentence(missing)}` });
  const durationMs = sinceMs(beganMs);
  const files = manifest.files.length;
  const facts = { target, reason, method, downloadedBytes, files, added, changed, removed, durationMs };
  news.push({ name: 'target.pulled', ...facts });
  const isExamined = isWhole && (previous === null || action.depth === 'bytes');
  const tree = method === 'none' ? null : await store.inventory.note(target, manifest);
  const asOf = cached === null ? {} : { asOfMs: cached.asOfMs };
  const found = { changedFiles, publishedAtMs, tree, isExamined, isWhole, ...asOf };
  return { action, outcome: { kind: 'pulled', ...found }, downloadedBytes, changedFiles, news };
}
