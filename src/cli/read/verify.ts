import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import { findTargets } from '../../app/target-names.ts';
import { knownTargets, type RepairReport, verifyProgress } from '../../app/tasks/repair.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { joined, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import {
  isClean,
  type VerifyEvent,
  type VerifyOptions,
  type VerifyReport,
  verifyTrees,
} from '../../mirror/store/verify/verify.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { loudness, type Outcome } from '../frame/output.ts';
import { taskRunners, worstOf } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { describeRepaired, describeVerification, examinedLine, verificationData } from './verify-output.ts';

interface VerifyFlags {
  readonly repair?: true;
  readonly expect?: number;
}

/** `verify` */
export async function runVerify(command: Command): Promise<Outcome> {
  const flags = command.opts<VerifyFlags>();
  const { settings } = settingsOf(command, ['directory']);
  const { expect } = flags;
  if (flags.repair === true) {
    const targets = command.args.length === 0 ? undefined : [...(await chosenBy(command.args, settings))];
    const runners = await taskRunners(command, false);
    const reports = await Promise.all(runners.map(({ run }) => run('repair', { targets, expect })));
    return {
      data: reports.length === 1 ? repairData(reports[0]) : reports.map(repairData),
      text: () => joined(reports.map(describeRepair), say`\n\n`),
      exitCode: worstOf(reports.map(exitCodeOf)),
    };
  }
  const line = createLiveLine();
  const showProgress = verifyProgress((text) => line.show(() => text));
  const onEvent = (event: VerifyEvent): void => {
    if (event.kind === 'examined' && event.target !== null && loudness() === 'verbose')
      line.line(examinedLine(event.target));
    showProgress(event);
  };
  try {
    const options = { targets: command.args, expected: expect ?? null, onEvent };
    const report = await untilStopped((signal) => verify(settings, { ...options, signal }));
    return {
      data: verificationData(report),
      text: () => describeVerification(report),
      exitCode: isClean(report) ? EXIT_CODES.ok : EXIT_CODES.incomplete,
    };
  } finally {
    line.clear();
  }
}

function exitCodeOf({ before, after }: RepairReport): ExitCode {
  const isWell = after === null ? isClean(before) : isClean(after) && before.strays.length === 0;
  return isWell ? EXIT_CODES.ok : EXIT_CODES.incomplete;
}

/** A repair, for `--json`; a verification if nothing needed repair. */
function repairData(report: RepairReport | undefined): unknown {
  if (report === undefined) return null;
  const { before, repaired, after } = report;
  if (after === null) return verificationData(before);
  return { before: verificationData(before), repaired, after: verificationData(after) };
}

/** Describes a repair to a person. */
function describeRepair({ before, repaired, after }: RepairReport): TerminalText {
  if (repaired === null || after === null) return describeVerification(before);
  const parts = [say`Before the repair:`, describeVerification(before, true), describeRepaired(repaired)];
  const left = isClean(after) ? [] : [say`After the repair:`, describeVerification(after)];
  return joined([...parts, ...left], say`\n`);
}

/**
 * Compares published trees with their manifests.
 * @param options.targets names as below `mirror/`, or paths on disk; none means everything
 * @throws MirrorError `directory.unusable`, `target.unknown`
 */
export async function verify(
  settings: SettingsFor<'directory'>,
  { targets, ...options }: Omit<VerifyOptions, 'chosen'> & { readonly targets: readonly string[] },
): Promise<VerifyReport> {
  await refuseMissing(settings.directory);
  const chosen = targets.length === 0 ? null : await chosenBy(targets, settings);
  return verifyTrees(layoutOf(settings.directory, settings.shard), { ...options, chosen });
}

async function chosenBy(
  names: readonly string[],
  { directory, shard }: SettingsFor<'directory'>,
): Promise<ReadonlySet<string>> {
  await refuseMissing(directory);
  const layout = layoutOf(directory, shard);
  return new Set(findTargets(names, layout.mirror, await knownTargets(layout)));
}
