import { isDeepStrictEqual } from 'node:util';
import type { PassContext } from './context.ts';
import { type SelectionCheck, selectsNothing } from '../plan/selection.ts';
import type { ReportedFailures } from '../state/schemas.ts';
import { type Cached, cachedSentence } from '../upstream/listing.ts';
import type { Listing, WorkbookRow } from '../upstream/listing.ts';
import type { PassEventFields, FlaggedWorkbooks, PassEvent } from './events.ts';
import type { ListedTarget } from '../plan/record.ts';
import { checkTargetList } from '../store/target-list.ts';

/** Reports a cache that gave an answer in place of the service: once, and not again because its answer has another age. */
export function reportCached(
  { reported, emit, now }: Pick<PassContext, 'reported' | 'emit' | 'now'>,
  subject: 'cached lists' | 'cached contents',
  cached: Cached | null,
): void {
  if (reported.news(subject, cached === null ? [] : [cached.via ?? '']).length === 0 || cached === null)
    return;
  emit({ name: 'listing.problem', problem: cachedSentence(cached, now()) });
}

/** The faults of the service's lists, a cache that gave them among these; a sentence each. @param nowMs milliseconds since the epoch */
export function problemsOf({ problems, cached }: Listing, nowMs: number): readonly string[] {
  return cached === null ? problems : [...problems, cachedSentence(cached, nowMs)];
}

/**
 * Compares what the service says of failed workbooks with what was reported before, so that every failure is reported
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
    // Hardly any row is worth a key: there may be very many.
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

/** How many flagged workbooks are named; of the others there is the number. */
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
 * Reports the targets that are gone with their manifests, each once for as long as it stays so: nothing else on the disk shows
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

/** Reports what is wrong with the lists, and which workbooks failed. @returns what is wrong with the lists, a sentence each */
export async function reportUpstream(
  context: Pick<PassContext, 'reported' | 'emit' | 'now' | 'state'>,
  listing: Listing,
): Promise<readonly string[]> {
  for (const problem of context.reported.news('problems', listing.problems))
    context.emit({ name: 'listing.problem', problem });
  reportCached(context, 'cached lists', listing.cached);
  const { workbooks, workbooksComplete } = listing;
  const problems = problemsOf(listing, context.now());
  if (workbooks === null) return problems;
  const before = await context.state.reportedFailures();
  if (before === null) return problems;
  const { events, reported } = reportFailures(before, workbooks, workbooksComplete);
  for (const event of events) context.emit(event);
  if (!isDeepStrictEqual(reported, before)) await context.state.saveReportedFailures(reported);
  return problems;
}

/** Reports what the settings select, and what in them selects nothing. */
export function reportSelection(
  { emit, reported }: Pick<PassContext, 'emit' | 'reported'>,
  selection: SelectionCheck,
): void {
  emit({ name: 'selection.checked', ...selection });
  const found = new Map<string, PassEvent>(
    selection.unmatched.map((each) => [
      JSON.stringify([each.setting, each.pattern]),
      { name: 'selection.unmatched', ...each },
    ]),
  );
  const { repositories, unmatched } = selection;
  if (selectsNothing(selection)) found.set('', { name: 'selection.empty', repositories, unmatched });
  for (const key of reported.news('unmatched', found.keys())) {
    const event = found.get(key);
    if (event !== undefined) emit(event);
  }
}
