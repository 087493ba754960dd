import type { Command } from 'commander';

import type { SettingsFor } from '../config/schema.ts';
import { EXIT_CODES, type ExitCode } from '../lib/errors/errors.ts';
import { abortOnSignal } from '../lib/process/signals.ts';
import { liveLineOptions, type Outcome, printData, printJson } from './output.ts';
import { describeRepaired, refuseRepair, repair, stillListed } from './repair.ts';
import { settingsOf } from './settings-flags.ts';
import { progressOf } from './sync.ts';
import { createVerifyProgress, describeVerification, verificationData } from './verify-output.ts';
import { standardError, standardOutput } from '../lib/process/streams.ts';
import { damagedTargets, isClean, verify, type VerifyReport } from './verify.ts';

interface VerifyFlags {
  readonly repair?: true;
  readonly resume?: true;
  readonly expect?: number;
  readonly json?: true;
}

/** `verify` */
export async function runVerify(command: Command): Promise<Outcome> {
  const { settings } = settingsOf(command, ['directory']);
  const needService = (): SettingsFor<'service' | 'directory'> =>
    settingsOf(command, ['service', 'directory']).settings;
  return {
    exitCode: await verifyAndRepair(settings, command.args, command.opts<VerifyFlags>(), needService),
  };
}

async function verifyAndRepair(
  settings: SettingsFor<'directory'>,
  targets: readonly string[],
  flags: VerifyFlags,
  needService: () => SettingsFor<'service' | 'directory'>,
): Promise<ExitCode> {
  const { signal, stopListening } = abortOnSignal();
  const verifyOnce = async (names: readonly string[], resume: boolean): Promise<VerifyReport> => {
    const progress = createVerifyProgress({
      ...liveLineOptions(),
      isReportBelow: flags.json !== true && standardOutput.isTerminal() && standardError.isTerminal(),
    });
    const expected = flags.expect ?? null;
    const { onEvent } = progress;
    const report = await verify(settings, { targets: names, resume, expected, signal, onEvent });
    progress.finish(report);
    return report;
  };
  try {
    if (flags.repair === true) await refuseRepair(settings);
    const report = await verifyOnce(targets, flags.resume === true);
    const damaged = damagedTargets(report);
    const isRepairable = damaged.length > 0 || report.inventory === 'damaged';
    const isRepaired = flags.repair === true && report.isComplete && isRepairable;
    if (!flags.json) printData(describeVerification(report, isRepaired));
    if (!isRepaired) {
      if (flags.json) printJson(verificationData(report));
      return isClean(report) ? EXIT_CODES.ok : EXIT_CODES.incomplete;
    }
    const progress = progressOf(settings);
    const repaired = await repair(settings, damaged, needService, progress, signal).finally(progress.close);
    const after = await verifyOnce(await stillListed(settings, damaged), false);
    if (flags.json) {
      printJson({ before: verificationData(report), repaired, after: verificationData(after) });
    } else {
      printData(describeRepaired(repaired));
      if (!isClean(after)) printData(describeVerification(after));
    }
    const isWell = isClean(after) && report.strays.length === 0;
    return isWell ? EXIT_CODES.ok : EXIT_CODES.incomplete;
  } finally {
    stopListening();
  }
}
