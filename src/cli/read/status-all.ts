import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { openReader, refuseMissing } from '../../app/open-reader.ts';
import { EXIT_CODES } from '../../lib/errors/errors.ts';
import { agoText, counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { ownerOf } from '../../mirror/plan/selection.ts';
import { judgeWhole, type ShareStatus, type WholeStatus } from './whole.ts';
import { readStore } from '../../mirror/store/directory.ts';
import { readShareReports } from '../../mirror/store/shards.ts';
import { linesOf, type Outcome, table, tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `status --all` */
export async function runStatusAll(command: Command): Promise<Outcome> {
  const nowMs = Date.now();
  const whole = await wholeStatus(settingsOf(command, ['directory']).settings, nowMs);
  return {
    data: { nowMs, ...whole },
    text: () => describeWhole(whole, nowMs),
    exitCode: whole.isWell ? EXIT_CODES.ok : EXIT_CODES.incomplete,
  };
}

/** The whole, and what of it nobody looks after. */
interface WholeReport extends WholeStatus {
  /** The targets in the directory whose instance is gone, or never was there; none where the instances have disks of their own. */
  readonly unattended: readonly string[];
}

/**
 * Reads how all shares stand: from the directory, which they may share, and from a remote state.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `directory.unusable`, `state.unavailable`
 */
export async function wholeStatus(settings: SettingsFor<'directory'>, nowMs: number): Promise<WholeReport> {
  await refuseMissing(settings.directory);
  const { store, state } = await openReader(settings, tellEvent);
  try {
    const here = await readShareReports(store.layout);
    const elsewhere = await state.shares();
    const whole = judgeWhole([...here, ...elsewhere], nowMs);
    return { ...whole, unattended: here.length === 0 ? [] : await unattendedIn(settings.directory, whole) };
  } finally {
    await state.close();
  }
}

/** The targets in a directory that several instances share of which nobody works for the share; sorted. */
async function unattendedIn(directory: string, { count, shares }: WholeStatus): Promise<string[]> {
  const left = new Set(
    shares.flatMap(({ index, state }) => (state === 'silent' || state === 'missing' ? [index] : [])),
  );
  if (left.size === 0) return [];
  // Read as by one that has all of it: nobody remembers the trees of all.
  const { published } = await (await readStore(directory)).inventory.read();
  return published.flatMap(({ path, repository }) => (left.has(ownerOf(repository.id, count)) ? [path] : []));
}

/** So many targets are shown; `--json` has all. */
const TARGETS_SHOWN = 100;

/** The whole, for a person. */
export function describeWhole(whole: WholeReport, nowMs: number): TerminalText {
  const { count, shares, disagreeing, unattended } = whole;
  const more = unattended.length - TARGETS_SHOWN;
  if (count === 0)
    return say`No instance with a share is known here: the setting shard makes one, such as 2/5.`;
  const ago = (timeMs: number | null): string => (timeMs === null ? '?' : agoText(timeMs, nowMs));
  const rows = shares.map(({ index, state, report }) => [
    `${index}/${count}`,
    state,
    report?.host ?? '?',
    report === null ? 'never' : ago(report.writtenAtMs),
    report === null ? '?' : String(report.targets),
    report === null ? '?' : String(report.notWell),
    report === null ? '?' : ago(report.oldestVerifiedAtMs),
  ]);
  const well = shares.filter(({ state }) => state === 'well').length;
  return joinLines([
    `${counted(count, 'share')}, ${well === count ? 'all' : String(well)} well`,
    ...shares.flatMap((share) => describeTrouble(share, ago)),
    ...linesOf(
      disagreeing.map(
        (each) =>
          `! ${each.host} worked as ${each.index}/${each.count} until ${ago(each.writtenAtMs)}, and the present count is ${count}.`,
      ),
    ),
    '',
    ...linesOf(
      unattended.length > 0 && 'Nobody verifies:',
      unattended.slice(0, TARGETS_SHOWN).map((target) => `  ${target}`),
      more > 0 && `  and ${more} more: --json has all`,
      unattended.length > 0 && '',
    ),
    table(['SHARE', 'STATE', 'HOST', 'LAST PASS', 'TARGETS', 'NOT WELL', 'OLDEST VERIFIED'], rows),
  ]);
}

function describeTrouble({ index, state, report }: ShareStatus, ago: (timeMs: number) => string): string[] {
  switch (state) {
    case 'well':
      return [];
    case 'missing':
      return [`! Nobody works as share ${index}: its repositories are not mirrored.`];
    case 'silent':
      return [
        `! The instance of share ${index} was last at work ${ago(report?.writtenAtMs ?? 0)}: nobody verifies its ${counted(report?.targets ?? 0, 'target')}.`,
      ];
    case 'not-well':
      return linesOf(
        report !== null && report.failure !== null && `! Share ${index}: ${report.failure}`,
        report !== null &&
          report.notWell > 0 &&
          `! Share ${index}: ${counted(report.notWell, 'target')} not as they should be; \`${ownCommand('status --shard', `${index}/${report.count}`)}\` names them.`,
      );
  }
}
