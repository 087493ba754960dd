import { publishedManifest } from '../../mirror/store/inventory.ts';
import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { unmatchedSentence } from '../../app/messages.ts';
import { type Action, isPlannedHold } from '../../mirror/plan/actions.ts';
import { type ForeseenChanges, foreseeChanges } from '../../app/tasks/foreseen-changes.ts';
import { repositoryFacts } from '../../mirror/pass/execute.ts';
import { problemsOf } from '../../mirror/pass/reports.ts';
import type { StoreReader } from '../../mirror/store/directory.ts';
import type { WorkbookRow } from '../../mirror/upstream/listing.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { describeDifferences } from './differences.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { SelectionCheck } from '../../mirror/plan/selection.ts';
import { planPass } from '../../mirror/pass/pass.ts';
import { policyOf } from '../../app/open-mirror.ts';
import { openReader } from '../../app/open-reader.ts';
import { connect, recallInstallation } from '../../app/installation.ts';
import { linesOf, type Outcome, table, tell, tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';

/** `plan` */
export async function runPlan(command: Command): Promise<Outcome> {
  const { files }: { files?: true } = command.opts();
  const { settings } = settingsOf(command, ['service', 'directory']);
  const { actions, selection, problems, changes } = await plan(settings, files === true);
  for (const problem of problems) tell(say`! ${problem}`, 'warn');
  for (const each of selection.unmatched) tell(say`! ${unmatchedSentence(each)}`, 'warn');
  return { data: planData(actions, changes), text: () => describePlan(actions, changes) };
}

/** The plan of a pass that began now, and how far the settings select anything. */
interface PlanReport {
  readonly actions: readonly Action[];
  readonly selection: SelectionCheck;
  /** Faults of the service's lists, a sentence each. */
  readonly problems: readonly string[];
  /** The changes of files that each action would bring, as far as they are known; null where nobody asked. */
  readonly changes: ReadonlyMap<Action, ForeseenChanges> | null;
}

/** Plans a pass, and changes nothing. @param withFiles whether the changes of files are asked for @throws MirrorError `service.*`, `credentials.refused` */
async function plan(settings: SettingsFor<'service' | 'directory'>, withFiles: boolean): Promise<PlanReport> {
  const { store, state } = await openReader(settings, tellEvent);
  const memory = await recallInstallation(state, settings.service.baseUrl);
  const client = connect(settings, memory, tellEvent);
  const { signal, stopListening } = abortOnSignal();
  try {
    const listing = await client.poll(signal, true);
    const context = { store, state, emit: tellEvent, now: Date.now };
    const planned = await planPass(context, policyOf(settings), listing, new Map(), 'all');
    const { plan: actions, selection } = planned;
    const factsFor = repositoryFacts(listing, actions);
    const changes = withFiles ? await foreseeAll(store, actions, (action) => factsFor(action).rows) : null;
    return { actions, selection, problems: problemsOf(listing, Date.now()), changes };
  } finally {
    stopListening();
    await client.close();
    await state.close();
  }
}

/** Foresees the changes of files of actions that bring any. */
async function foreseeAll(
  store: Pick<StoreReader, 'layout'>,
  actions: readonly Action[],
  rowsFor: (action: Action) => readonly WorkbookRow[] | null,
): Promise<ReadonlyMap<Action, ForeseenChanges>> {
  const changes = new Map<Action, ForeseenChanges>();
  // One after the other: a manifest may be great.
  for (const action of actions) {
    const { kind, published } = action;
    if (kind === 'keep' || kind === 'hold') continue;
    const manifest = published === null ? null : await publishedManifest(store.layout, published.path);
    changes.set(action, foreseeChanges(action, manifest, kind === 'pull' ? rowsFor(action) : null));
  }
  return changes;
}

/** The plan as data, for `--json`. Sizes are those of the last pull: nobody knows them before. */
function planData(actions: readonly Action[], changes: PlanReport['changes']): unknown {
  return actions.map((action) => ({
    target: action.path,
    action: action.kind,
    reason: action.reason,
    isHeld: isPlannedHold(action),
    deselection: action.deselection ?? null,
    movedFrom: action.moveFrom,
    lastArchiveBytes: action.published?.archiveBytes ?? null,
    files: action.published?.fileCount ?? null,
    ...(changes === null ? {} : { changes: changes.get(action) ?? { differences: [], isComplete: true } }),
  }));
}

/** The plan for a person. */
function describePlan(actions: readonly Action[], changes: PlanReport['changes']): TerminalText {
  if (actions.length === 0) return say`Nothing is selected: there is no target.`;
  const rows = actions.map((action) => [
    shownKind(action) + (action.moveFrom === null ? '' : ' (moves)'),
    action.deselection === undefined ? action.reason : `${action.reason}, deselected`,
    action.published === null ? '?' : String(action.published.fileCount),
    action.published === null ? '?' : roughSize(action.published.archiveBytes),
    action.path,
  ]);
  const pulls = actions.filter((action) => action.kind === 'pull');
  const knownBytes = pulls.reduce((sum, action) => sum + (action.published?.archiveBytes ?? 0), 0);
  const unknown = pulls.filter((action) => action.published === null).length;
  const known = unknown === pulls.length ? '' : `, ${roughSize(knownBytes)} by the size of the last archives`;
  const unsized =
    unknown === 0 ? '' : `, ${unknown === pulls.length ? '' : `${unknown} of them `}of unknown size`;
  const summary =
    pulls.length === 0
      ? 'Nothing would be pulled.'
      : `${counted(pulls.length, 'target')} would be pulled${known}${unsized}.`;
  return joinLines([
    table(['ACTION', 'REASON', 'FILES', 'LAST ARCHIVE', 'TARGET'], rows),
    '',
    ...linesOf(summary, describeHolds(actions)),
    ...[...(changes ?? [])].flatMap(([action, each]) => ['', describeChanges(action, each)]),
  ]);
}

/** The action for a person, as the pass will count it. */
function shownKind(action: Action): string {
  if (action.reason === 'not-selected') return 'leave';
  return action.kind === 'keep' && isPlannedHold(action) ? 'hold' : action.kind;
}

/** The holds of a plan, for a person: what a pass would report as held. */
function describeHolds(actions: readonly Action[]): string[] {
  const held = actions.filter(isPlannedHold);
  const deselected = held.filter(({ deselection }) => deselection !== undefined).length;
  return linesOf(
    held.length > 0 && `${counted(held.length, 'target')} would be held.`,
    deselected > 0 &&
      `The settings no longer select ${deselected} of them, too many at once: they are mirrored as before until \`${ownCommand('approve')} TARGET\` lets them go.`,
  );
}

/** The changes that an action would bring, for a person. */
function describeChanges({ path }: Action, { differences, isComplete }: ForeseenChanges): TerminalText {
  const rest = differences.length === 0 ? 'What changes' : 'What else changes, and what is gone,';
  return joinLines([
    say`${path}:`,
    ...(differences.length === 0 ? [] : [describeDifferences(differences).prefixed('  ')]),
    ...(isComplete ? [] : [`  ${rest} only the contents tell: ${ownCommand('diff --upstream', path)}`]),
  ]);
}
