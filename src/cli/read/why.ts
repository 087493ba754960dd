import { publishedManifest } from '../../mirror/store/inventory.ts';
import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted, oneLine, utcTime } from '../../lib/text/humanize.ts';
import { missingSentence } from '../../mirror/plan/contradictions.ts';
import { driftSentence, heldSentence } from '../../app/messages.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { readLockHolder } from '../../lib/disk/lock.ts';
import { emptyRecord, queuedSinceMs, type TargetRecord } from '../../mirror/plan/record.ts';
import { targetKey } from '../../mirror/upstream/listing.ts';
import { joinLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import { startSchedule } from '../../app/schedule.ts';
import type { MirrorReader } from '../../app/open-reader.ts';
import { linesOf, type Outcome } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import {
  findTarget,
  firstOf,
  severalSentence,
  type SeveralTargets,
  writtenName,
} from '../frame/target-names.ts';
import { type KnownTargets, readTargets, withReader } from '../frame/targets.ts';
import {
  describePlaces,
  describeRetired,
  type FilePlaces,
  placesOf,
  type Retired,
  retirementOf,
} from './why-elsewhere.ts';

/** `why` */
export async function runWhy(command: Command): Promise<Outcome> {
  const [asked = ''] = command.args;
  const { settings, sources, configFile } = settingsOf(command, ['directory']);
  const isScheduleKnown = configFile !== undefined || sources['schedule']?.kind !== 'default';
  const explanation = await why(settings, asked, isScheduleKnown);
  return { data: explanation, text: () => describeExplanation(explanation) };
}

/** The facts about a target, or about a file in it, and what comes next. */
export interface Explanation {
  readonly target: TargetStatus;
  readonly record: TargetRecord;
  /** The file that was asked for; null when a whole target was. */
  readonly file: ManifestFile | null;
  readonly path: string | null;
  /** The first of the files that a held deletion would take, sorted. */
  readonly heldFiles: readonly string[];
  /** Null where the schedule of the daemon is not known. */
  readonly nextPassAtMs: number | null;
  /** Whether a process works in the directory; null where that cannot be told. */
  readonly isAttended: boolean | null;
}

/**
 * Explains a target, named as below `mirror/`, or a file in one, by the same path, by its path on disk or by the end of its path,
 * such as its bare name. Of a repository it gives the targets, of a file that is in several places those, of a target that was retired
 * when it left.
 * @param isScheduleKnown whether the settings are those of the daemon, and not only the defaults
 * @throws MirrorError `target.unknown`
 */
export function why(
  settings: SettingsFor<'directory'>,
  asked: string,
  isScheduleKnown: boolean,
): Promise<Explanation | Targets | FilePlaces | Retired> {
  return withReader(settings, async (reader) => {
    const { store } = reader;
    const { mirror, lockFile } = store.layout;
    const targets = await readTargets(settings, reader);
    const found = findTarget(
      asked,
      mirror,
      targets.statuses.map((each) => each.target),
    );
    if (typeof found !== 'string') return severalOf(found, targets.statuses);
    const path = withTarget(found, targets.statuses);
    const holder = await readLockHolder(lockFile);
    const known = {
      ...targets,
      nextPassAtMs: isScheduleKnown ? await nextPass(settings) : null,
      isAttended: holder?.isAlive ?? null,
    };
    const exact = await explain(known, store, path);
    if (exact !== null) return exact;
    const places = await placesOf(store, known.published, path);
    const [first, ...others] = places;
    const only = first === undefined || others.length > 0 ? null : `${first.target}/${first.path}`;
    const explanation = only === null ? null : await explain(known, store, only);
    if (explanation !== null) return explanation;
    if (places.length > 0) return { file: path, places };
    const retired = await retirementOf(store.layout, path);
    if (retired !== null) return { retired };
    throw unknown(asked, known.statuses);
  });
}

/** The targets that a name stands for, where they are several. */
interface Targets extends SeveralTargets {
  readonly states: readonly Pick<TargetStatus, 'target' | 'state'>[];
}

function severalOf(found: SeveralTargets, statuses: readonly TargetStatus[]): Targets {
  const chosen = statuses.filter(({ target }) => found.targets.includes(target));
  return { ...found, states: chosen.map(({ target, state }) => ({ target, state })) };
}

/** A path of a file with its target by its path, where exactly one target is written as the path begins. */
function withTarget(path: string, statuses: readonly TargetStatus[]): string {
  if (statuses.some(({ target }) => path === target || path.startsWith(`${target}/`))) return path;
  const name = path.normalize('NFC');
  const found = statuses.filter(({ target }) => name.startsWith(`${writtenName(target)}/`));
  const [only] = found;
  return only === undefined || found.length > 1
    ? path
    : `${only.target}${name.slice(writtenName(only.target).length)}`;
}

/** Explains the target of a path below `mirror/`, and the file that the path leads to; null where no target holds it. */
async function explain(
  { published, records, statuses, ...when }: KnownTargets & Pick<Explanation, 'nextPassAtMs' | 'isAttended'>,
  store: MirrorReader['store'],
  path: string,
): Promise<Explanation | null> {
  const target = statuses
    .filter((each) => path === each.target || path.startsWith(`${each.target}/`))
    .sort((a, b) => b.target.length - a.target.length)[0];
  if (target === undefined) return null;
  const tree = published.find((each) => each.path === target.target);
  const id = { repositoryId: tree?.repository.id ?? '', branch: target.branch };
  const record =
    records.get(targetKey(id)) ??
    [...records.values()].find(
      (each) => each.repository === target.repository && each.target.branch === target.branch,
    ) ??
    emptyRecord(id);
  const inner = path === target.target ? null : path.slice(target.target.length + 1);
  const manifest = inner === null ? null : await publishedManifest(store.layout, target.target);
  const file = manifest?.files.find((each) => each.path === inner) ?? null;
  const heldFiles = record.held?.first ?? [];
  const { nextPassAtMs, isAttended } = when;
  return { target, record, file, path: inner, heldFiles, nextPassAtMs, isAttended };
}

function unknown(asked: string, statuses: readonly TargetStatus[]): MirrorError {
  const close = likely(
    asked,
    statuses.map((each) => each.target),
  );
  const lists = `\`${ownCommand('status')}\` lists all targets, \`${ownCommand('history list')}\` what left the mirror.`;
  const hint =
    statuses.length === 0
      ? `Nothing is mirrored there yet: \`${ownCommand('plan')}\` says what would be, \`${ownCommand('sync')}\` does it.`
      : close === undefined
        ? lists
        : `The nearest is ${close}. ${lists}`;
  return new MirrorError(
    'target.unknown',
    `No target and no file in one is named ${JSON.stringify(asked)}.`,
    { hint },
  );
}

async function nextPass(settings: SettingsFor<'directory'>): Promise<number | null> {
  const schedule = await startSchedule(settings.schedule, settings.timezone, () => {});
  const nextPassAtMs = schedule.nextRunAtMs();
  await schedule.stop();
  return nextPassAtMs;
}

/** The explanation for a person. */
export function describeExplanation(explanation: Explanation | Targets | FilePlaces | Retired): TerminalText {
  if ('states' in explanation) return describeTargets(explanation);
  if ('places' in explanation) return describePlaces(explanation);
  if ('retired' in explanation) return describeRetired(explanation);
  const { target, record } = explanation;
  const time = (timeMs: number | null): string => (timeMs === null ? 'never' : utcTime(timeMs));
  return joinLines(
    linesOf(
      `${target.target} is ${target.state}${target.isStale && target.state !== 'stale' ? ' and stale' : ''}.`,
      `  repository ${target.repository}, branch ${target.branch}, ${counted(target.files, 'file')}`,
      `  verified ${time(target.verifiedAtMs)}, changed ${time(target.changedAtMs)}, compared whole ${time(target.checkedAtMs)}`,
      target.missingWorkbooks.length > 0 && `  warning: ${missingSentence(target.missingWorkbooks)}`,
      describeFile(explanation),
      '',
      record.decisions.length === 0
        ? 'No decision is on record.'
        : 'Decisions, the latest first, and since when each was taken:',
      record.decisions.map(
        ({ firstAtMs, kind, reason, result }) => `  ${time(firstAtMs)}  ${kind} (${reason}): ${result}`,
      ),
      '',
      'Next:',
      describeNext(explanation, time),
    ),
  );
}

function describePolls(
  nextPassAtMs: number | null,
  isAttended: boolean | null,
  time: (timeMs: number | null) => string,
): string {
  if (isAttended === false)
    return `  no process works there: \`${ownCommand('sync')}\` polls the versions now, \`${ownCommand('run')}\` on the schedule`;
  if (nextPassAtMs === null)
    return '  the versions are polled on the schedule of the daemon, which these settings do not tell';
  const isUnsure = isAttended === null ? ', if the daemon runs: its lock does not tell' : '';
  return `  the versions are polled at ${time(nextPassAtMs)}${isUnsure}`;
}

/** Several targets, for a person. */
function describeTargets(found: Targets): TerminalText {
  const lines = found.states.map(({ target, state }) => `${target} is ${state}`);
  return joinLines([
    `${severalSentence(found)}; name one of them to have it explained:`,
    ...firstOf(lines).map((line) => `  ${line}`),
  ]);
}

function describeFile({ file, path, target }: Explanation): string[] {
  if (path === null) return [];
  if (file === null) return [`  ${path}: not in the tree as it was published`];
  const { workbook } = file;
  return [
    `  ${path}: ${file.sizeBytes} bytes, sha256 ${file.sha256}, modified ${utcTime(file.mtimeMs)}`,
    ...(workbook === undefined
      ? [`    no workbook of the listing on ${target.branch}: it changes only when the contents are pulled`]
      : [
          `    version ${workbook.versionId} of ${workbook.createdAt ?? 'unknown time'} by ${workbook.author ?? 'unknown'}`,
          `    ${JSON.stringify(workbook.message ?? '')}`,
        ]),
  ];
}

function describeNext(
  { target, record, nextPassAtMs, isAttended }: Explanation,
  time: (timeMs: number | null) => string,
): string[] {
  const queuedMs = queuedSinceMs(record);
  const { failure, held, drift, nextFullCheckAtMs } = target;
  return linesOf(
    queuedMs !== null && `  queued since ${time(queuedMs)} to be pulled for the first time`,
    describePolls(nextPassAtMs, isAttended, time),
    nextFullCheckAtMs !== null && `  the contents are compared whole after ${time(nextFullCheckAtMs)}`,
    drift !== null && [
      `  changed by someone, seen at ${time(drift.sinceMs)}: ${driftSentence(drift)}`,
      `  it is put right when its contents are compared whole; now by SIGHUP to the daemon or, without one, by \`${ownCommand('verify --repair', target.target)}\``,
    ],
    held !== null && [
      `  held since ${time(held.sinceMs)}, because ${heldSentence(held)}`,
      ...held.first.map((file) => `    ${file}`),
    ],
    held?.subject === 'files' &&
      held.first.length < held.deletions &&
      `    … \`${ownCommand('diff --upstream', target.target)}\` lists all of them`,
    held !== null && `  if it is to go: ${ownCommand('approve', target.target)}`,
    failure !== null &&
      linesOf(
        `  ${failure.code} (${failure.attempts} in a row since ${time(failure.sinceMs)}): ${oneLine(failure.message)}`,
        failure.hint !== null && `  ${failure.hint}`,
        `  it is tried again after ${time(failure.nextAttemptAtMs)}${failure.action === 'quarantine' ? ', when its versions change,' : ''} or at once with \`${ownCommand('retry', target.target)}\``,
      ),
  );
}
