import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import { findTargets, firstOf } from '../../app/target-names.ts';
import { knownTargets, type RepairReport, verifyProgress } from '../../app/tasks/repair.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { counted, partsOf, roughDuration, roughSize } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joined, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import type { Difference } from '../../mirror/store/verify/examine.ts';
import {
  hasExpected,
  isClean,
  type VerifiedTarget,
  type VerifyOptions,
  type VerifyReport,
  verifyTrees,
} from '../../mirror/store/verify/verify.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { type Lines, type Outcome, textOf, under } from '../frame/output.ts';
import { exitCodeOfShards, runAll, taskRunners, worstOf } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `verify` */
export async function runVerify(command: Command): Promise<Outcome> {
  const { repair, expect }: { repair?: true; expect?: number } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const chosen = await chosenBy(command.args, settings);
  let reports: readonly RepairReport[];
  let ofShards: ExitCode = EXIT_CODES.ok;
  if (repair === true) {
    const wish = { targets: chosen === null ? undefined : [...chosen], expect };
    const runners = await taskRunners(command, false);
    const results = await runAll(runners, 'repair', wish);
    reports = results.map(({ result }) => result);
    ofShards = await exitCodeOfShards(command, runners, chosen && unexamined(reports, chosen));
  } else {
    const layout = layoutOf(settings.directory, settings.shard);
    const options = { chosen, expected: expect ?? null };
    const before = await withProgress((events) => verifyTrees(layout, { ...options, ...events }));
    reports = [{ before, repaired: null, after: null }];
  }
  const data = reports.map(repairData);
  return {
    data: data.length === 1 ? data[0] : data,
    text: () => joined(reports.map(describeRepair), say`\n\n`),
    exitCode: worstOf([...reports.map(exitCodeOf), ofShards]),
  };
}

/** The chosen targets that the daemons that were reached did not examine. */
function unexamined(reports: readonly RepairReport[], chosen: ReadonlySet<string>): string[] {
  const examined = new Set(
    reports.flatMap(({ before: { targets, unreadableManifests, lost } }) =>
      [...targets, ...unreadableManifests, ...lost].map(({ path }) => path),
    ),
  );
  return [...chosen].filter((path) => !examined.has(path));
}

/** Shows the progress of a verification in this process. */
function withProgress<T>(
  work: (events: Pick<VerifyOptions, 'signal' | 'onEvent'>) => Promise<T>,
): Promise<T> {
  const line = createLiveLine();
  const onEvent = verifyProgress((text) => line.show(() => text));
  return untilStopped((signal) => work({ signal, onEvent })).finally(line.clear);
}

function exitCodeOf({ before, after }: RepairReport): ExitCode {
  const isWell = after === null ? isClean(before) : isClean(after) && before.strays.length === 0;
  return isWell ? EXIT_CODES.ok : EXIT_CODES.incomplete;
}

/** A repair, for `--json`; a verification if nothing needed repair. */
function repairData({ before, repaired, after }: RepairReport): unknown {
  const dataOf = (report: VerifyReport): unknown => ({ ...report, isClean: isClean(report) });
  return after === null ? dataOf(before) : { before: dataOf(before), repaired, after: dataOf(after) };
}

/** Describes a repair to a person. */
export function describeRepair({ before, repaired, after }: RepairReport): TerminalText {
  if (repaired === null) return describeVerification(before);
  const { fromDisk, pulled, inventoryWritten } = repaired;
  return textOf(
    'Before the repair:',
    describeVerification(before, true),
    fromDisk.length > 0 &&
      `${counted(fromDisk.length, 'target')} repaired from the disk: ${fromDisk.join(', ')}`,
    pulled.length > 0 && `${counted(pulled.length, 'target')} pulled: ${pulled.join(', ')}`,
    inventoryWritten && 'inventory.json was written again',
    !isClean(after) && [
      'After the repair:',
      describeVerification(after, true),
      `\`${ownCommand('status')}\` shows why it is not complete.`,
    ],
  );
}

/** The targets that some names mean; null for all, without names. @throws MirrorError `directory.unusable`, `target.unknown` */
async function chosenBy(
  names: readonly string[],
  { directory, shard }: SettingsFor<'directory'>,
): Promise<ReadonlySet<string> | null> {
  await refuseMissing(directory);
  if (names.length === 0) return null;
  const layout = layoutOf(directory, shard);
  return new Set(findTargets(names, layout.mirror, await knownTargets(layout)));
}

/** Describes the findings to a person. @param isRepaired whether a repair follows or was tried, so that no advice is needed */
export function describeVerification(report: VerifyReport, isRepaired = false): TerminalText {
  const { unreadableManifests, strays, lost, inventoryProblem } = report;
  const blocks: readonly Lines[] = [
    ...report.targets.filter((target) => target.state !== 'ok').map(blockOf),
    under(
      'Manifests that cannot be read, so that their trees cannot be verified:',
      unreadableManifests.map(({ path, problem }) => `manifests/${path}.json: ${problem}`),
    ),
    under(
      'Lost, without a manifest:',
      lost.map(({ path }) => path),
    ),
    inventoryProblem !== null &&
      `inventory.json cannot be used, so lost targets cannot be detected: ${inventoryProblem}.`,
    under(
      'In the mirror, but in no manifest:',
      strays.map(({ path, entry }) => `mirror/${path} (${entry})`),
    ),
    [summaryOf(report), !isRepaired && adviceOf(report)],
  ];
  return joined(
    blocks.filter((block) => block !== false).map((block) => textOf(block)),
    say`\n\n`,
  );
}

function headOf({ path, state, differences }: VerifiedTarget): string {
  if (state === 'gone') return `${path} is gone: there is no folder mirror/${path}`;
  return `${path} differs from its manifest in ${counted(differences.length, 'place')}`;
}

function blockOf(target: VerifiedTarget): Lines {
  if (target.state === 'gone') return headOf(target);
  // The flag `--json` shows all.
  return under(`${headOf(target)}:`, firstOf(target.differences.map(describeDifference)));
}

function describeDifference(difference: Difference): string {
  const line = `${difference.kind.padEnd('unreadable '.length)}${difference.path}`;
  switch (difference.kind) {
    case 'added':
      return difference.entry === 'file' ? line : `${line} (${difference.entry})`;
    case 'missing':
      return line;
    case 'modified':
      return `${line}: ${difference.what.join(', ')}`;
    case 'unreadable':
      return `${line}: ${difference.problem}`;
  }
}

function summaryOf(report: VerifyReport): string {
  const { targets, selected, unreadableManifests } = report;
  const examined = targets.length + unreadableManifests.length;
  if (report.isComplete && report.mirrored === 0 && report.lost.length === 0 && report.strays.length === 0)
    return `Nothing is mirrored in ${report.directory}: no manifest is there${expectation(report)}.`;
  const files = targets.reduce((sum, target) => sum + target.files, 0);
  const sizeBytes = targets.reduce((sum, target) => sum + target.sizeBytes, 0);
  const faults = faultsOf(report);
  const extent = `${counted(targets.length, 'target')}, ${counted(files, 'file')}, ${roughSize(sizeBytes)}, verified in ${roughDuration(report.durationMs)}`;
  const found = faults.length === 0 ? 'all as published' : faults.join(', ');
  const interrupted = report.isComplete ? '' : `Interrupted after ${examined} of ${selected}: `;
  return `${interrupted}${extent}: ${found}.`;
}

function faultsOf(report: VerifyReport): string[] {
  const { targets, unreadableManifests, lost, strays, mirrored } = report;
  const damaged = targets.filter((target) => target.state !== 'ok').length;
  const unreadable = unreadableManifests.length;
  return partsOf(
    damaged > 0 && `${counted(damaged, 'target')} not as published`,
    unreadable > 0 && `${counted(unreadable, 'manifest')} that cannot be read`,
    lost.length > 0 && `${counted(lost.length, 'target')} lost`,
    report.inventory === 'damaged' && 'the inventory damaged',
    strays.length > 0 && `${counted(strays.length, 'entry', 'entries')} in no manifest`,
    !hasExpected(report) && `${counted(mirrored, 'target')} in all${expectation(report)}`,
  );
}

/** The expected number, if it differs. */
function expectation(report: VerifyReport): string {
  return report.expected === null || hasExpected(report) ? '' : `, ${report.expected} expected`;
}

function adviceOf(report: VerifyReport): Lines {
  const { mirrored, lost, inventory, strays } = report;
  const isDamaged = report.targets.some((target) => target.state !== 'ok');
  const isAdded = report.targets.some((each) => each.differences.some(({ kind }) => kind === 'added'));
  const needsPull = isDamaged || report.unreadableManifests.length > 0;
  const repair = `\`${ownCommand('verify --repair')}\``;
  return [
    needsPull &&
      `${repair} repairs it${isAdded ? ', and deletes all added files (`--json` lists them)' : ''}; what the history does not have is downloaded.`,
    lost.length > 0 && `The next pass, or ${repair}, pulls lost targets again.`,
    inventory === 'damaged' && `The next pass writes the inventory again, and so does ${repair}.`,
    inventory === 'missing' &&
      mirrored > 0 &&
      'Without inventory.json, which the next pass writes, lost targets cannot be detected; `--expect N` checks their number.',
    mirrored === 0 &&
      lost.length === 0 &&
      !hasExpected(report) &&
      'Name the folder that holds mirror/ and manifests/; `--expect 0` accepts an empty one.',
    strays.length > 0 &&
      'workbook-mirror does not touch files outside the published trees: move them out of mirror/ if they are not needed there.',
  ];
}
