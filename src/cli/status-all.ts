import type { Command } from 'commander';

import type { SettingsFor } from '../config/schema.ts';
import { openReader, refuseMissing } from '../daemon/start/open-reader.ts';
import { EXIT_CODES } from '../lib/errors/errors.ts';
import { counted, roughDuration } from '../lib/text/humanize.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../lib/text/terminal-text.ts';
import { tolerateStateFailure } from '../mirror/pass/state-failures.ts';
import { judgeWhole, type ShareStatus, type WholeStatus } from '../mirror/plan/whole.ts';
import { readShareReports } from '../mirror/store/shards/share-reports.ts';
import { linesOf, type Outcome, table, tellEvent } from './output.ts';
import { settingsOf } from './settings-flags.ts';

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

/**
 * Reads how all shares stand: from the directory, which they may share, and from a remote state.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `directory.unusable`, `state.unavailable`
 */
export async function wholeStatus(settings: SettingsFor<'directory'>, nowMs: number): Promise<WholeStatus> {
  await refuseMissing(settings.directory);
  const { store, state } = await openReader(settings, tellEvent);
  try {
    const here = await readShareReports(store.layout);
    const elsewhere = await tolerateStateFailure(tellEvent, state.shares, []);
    return judgeWhole([...here, ...elsewhere], nowMs);
  } finally {
    await state.close();
  }
}

/** The whole, for a person. */
export function describeWhole(whole: WholeStatus, nowMs: number): TerminalText {
  const { count, shares, disagreeing } = whole;
  if (count === 0)
    return say`No instance with a share is known here: the setting shard makes one, such as 2/5.`;
  const ago = (timeMs: number | null): string =>
    timeMs === null ? '?' : `${roughDuration(nowMs - timeMs)} ago`;
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
          `! ${each.host} works as ${each.index}/${each.count}, and others go by ${count}: while a count is changed that is so for a while.`,
      ),
    ),
    '',
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
