import { readTargets, withReader } from '../../app/open-reader.ts';
import { ofTargets } from '../../app/target-names.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { agoText, counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import { CLOCK_STEP_MS, isAhead, latestFirst } from '../../lib/time/wrong-clock.ts';
import { readShareReports, type ShareReport } from '../../mirror/store/documents.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { judged, type Lines, type Outcome, table, tellEvent, textOf } from '../frame/output.ts';
import { targetTable } from './target-table.ts';

/**
 * `status --all`: all shares of several instances, and every target of the instances that work in the directory.
 * @param names and patterns of the only targets to list
 * @returns null if no instance with a share is known
 */
export async function statusAll(
  settings: SettingsFor<'directory'>,
  names: readonly string[],
): Promise<Outcome | null> {
  const nowMs = Date.now();
  const whole = await wholeStatus(settings, nowMs);
  if (whole.count === 0) return null;
  const all = await targetsOf(settings, whole.count);
  const targets = ofTargets(all, names, layoutOf(settings.directory).mirror);
  return judged(whole.isWell, { nowMs, ...whole, targets }, () =>
    textOf(describeWhole(whole, nowMs), '', targetTable(targets, targets.length, nowMs)),
  );
}

/** The targets of the instances that work in the directory, by their paths. */
async function targetsOf(
  settings: SettingsFor<'directory'>,
  presentCount: number,
): Promise<readonly TargetStatus[]> {
  const targets: TargetStatus[] = [];
  for (const { index, count } of await readShareReports(layoutOf(settings.directory))) {
    if (count !== presentCount) continue;
    const ofShare = { ...settings, shard: { index, count } };
    const { statuses } = await withReader(ofShare, tellEvent, (reader) => readTargets(ofShare, reader));
    targets.push(...statuses);
  }
  return targets.sort((a, b) => byCodeUnits(a.target, b.target));
}

/**
 * Reads the state of all shares from the directory, which they may share, and from a remote state.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `directory.unusable`, `state.unavailable`
 */
export function wholeStatus(settings: SettingsFor<'directory'>, nowMs: number) {
  return withReader(settings, tellEvent, async ({ store, state }) =>
    judgeWhole([...(await readShareReports(store.layout)), ...(await state.shares())], nowMs),
  );
}

/** The state of a share. `silent`: no instance has reported for too long. */
type ShareState = 'well' | 'not-well' | 'silent' | 'missing';

/**
 * Judges the state of all shares. If a share has several reports, the newest counts; it has none if no instance ever worked for it.
 * @param nowMs milliseconds since the epoch
 * @returns `count`: the number of shares, from the newest report; 0 without a report. `disagreeing`: recent reports by instances with
 *   another count, from before a change of the count or from a forgotten instance
 */
export function judgeWhole(reports: readonly ShareReport[], nowMs: number) {
  const byTime = latestFirst(nowMs + CLOCK_STEP_MS);
  const sorted = [...reports].sort((a, b) => byTime(a.writtenAtMs, b.writtenAtMs));
  const count = sorted[0]?.count ?? 0;
  const shares = Array.from({ length: count }, (_, at) => {
    const report = sorted.find((each) => each.index === at + 1 && each.count === count) ?? null;
    return { index: at + 1, state: stateOf(report, nowMs), report };
  });
  const disagreeing = sorted.filter((each) => each.count !== count && !isSilent(each, nowMs));
  const isWell = count > 0 && disagreeing.length === 0 && shares.every(({ state }) => state === 'well');
  return { count, shares, disagreeing, isWell };
}

function stateOf(report: ShareReport | null, nowMs: number): ShareState {
  if (report === null) return 'missing';
  if (isSilent(report, nowMs)) return 'silent';
  return report.failure === null && report.notWell === 0 ? 'well' : 'not-well';
}

/** Whether an instance has been silent for longer than its targets may be unverified, as far as its clock can be trusted. */
function isSilent({ writtenAtMs, maxStalenessMs }: ShareReport, nowMs: number): boolean {
  return isAhead(nowMs + CLOCK_STEP_MS, writtenAtMs) || nowMs - writtenAtMs > maxStalenessMs;
}

/** Describes all shares to a person. */
export function describeWhole(whole: ReturnType<typeof judgeWhole>, nowMs: number): TerminalText {
  const { count, shares, disagreeing } = whole;
  const ago = (timeMs: number | null): string => (timeMs === null ? '?' : agoText(timeMs, nowMs));
  const rows = shares.map(({ index, state, report }) => [
    `${index}/${count}`,
    state,
    ...(report === null
      ? ['?', 'never', '?', '?', '?']
      : [
          report.host,
          ago(report.writtenAtMs),
          String(report.targets),
          String(report.notWell),
          ago(report.oldestVerifiedAtMs),
        ]),
  ]);
  const well = shares.filter(({ state }) => state === 'well').length;
  return textOf(
    `${counted(count, 'shard')}, ${well === count ? 'all' : String(well)} well`,
    shares.map((share) => describeTrouble(share, count, ago)),
    disagreeing.map(
      (each) =>
        `! ${each.host} worked as ${each.index}/${each.count} until ${ago(each.writtenAtMs)}, and the present count is ${count}.`,
    ),
    '',
    table(['SHARD', 'STATE', 'HOST', 'LAST PASS', 'TARGETS', 'NOT WELL', 'OLDEST VERIFIED'], rows),
  );
}

function describeTrouble(
  { index, state, report }: ReturnType<typeof judgeWhole>['shares'][number],
  count: number,
  ago: (timeMs: number) => string,
): Lines {
  if (state === 'well') return null;
  if (report === null) return `! No instance has shard ${index}: its repositories are not mirrored.`;
  if (state === 'silent')
    return `! The instance of shard ${index} was last at work ${ago(report.writtenAtMs)}: its ${counted(report.targets, 'target')} may be late.`;
  return [
    report.failure !== null && `! Shard ${index}: ${report.failure}`,
    report.notWell > 0 &&
      `! Shard ${index}: ${counted(report.notWell, 'target')} with problems; \`${ownCommand(`status --shard ${index}/${count}`)}\` names them.`,
  ];
}
