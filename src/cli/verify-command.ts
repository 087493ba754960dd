import { type Command, InvalidArgumentError } from 'commander';

import type { SettingsFor } from '../config/schema.ts';
import { EXIT_CODES, type ExitCode } from '../lib/errors/errors.ts';
import { declare, type SetExitCode } from './declare.ts';
import { liveLineOptions, printData, printJson } from './output.ts';
import { standardError, standardOutput } from '../lib/process/streams.ts';
import type { VerifyReport } from './verify.ts';

interface VerifyFlags {
  readonly repair?: true;
  readonly resume?: true;
  readonly expect?: number;
  readonly json?: true;
}

/** Declares the command `verify`. */
export function addVerifyCommand(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'verify',
    'disk',
    'hold the mirror against its manifests, every byte',
    'Compares names, sizes, modes, times and SHA-256 of every published file. Needs neither the service nor a lock, and ' +
      'works beside a running daemon and on a restored backup. Ends with 1 when anything differs, ' +
      'when a target of the inventory is lost, and when nothing is mirrored there at all. --repair takes the lock, ' +
      'and puts right what differs: from the history or, where that has not the bytes, by a pass.\n\n' +
      'Example: workbook-mirror verify --directory /var/lib/workbook-mirror',
  )
    .argument('[targets...]', 'targets as below mirror/; everything if none is named')
    .option('--repair', 'put right what differs')
    .option('--resume', 'go on from a verification that was interrupted')
    .option('--expect <number>', 'how many targets must be there: another number is a fault', readNumber)
    .option('--json', 'print the report as JSON')
    .action(async (targets: string[], flags: VerifyFlags, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const needService = (): SettingsFor<'service' | 'directory'> =>
        settingsOf(command, ['service', 'directory']).settings;
      setExitCode(await verifyAndRepair(settings, targets, flags, needService));
    });
}

async function verifyAndRepair(
  settings: SettingsFor<'directory'>,
  targets: readonly string[],
  flags: VerifyFlags,
  needService: () => SettingsFor<'service' | 'directory'>,
): Promise<ExitCode> {
  const { damagedTargets, isClean, verify } = await import('./verify.ts');
  const { createVerifyProgress, describeVerification, verificationData } = await import('./verify-output.ts');
  const { abortOnSignal } = await import('../lib/process/signals.ts');
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
    if (flags.repair === true) await (await import('./repair.ts')).refuseRepair(settings);
    const report = await verifyOnce(targets, flags.resume === true);
    const damaged = damagedTargets(report);
    const isRepairable = damaged.length > 0 || report.inventory === 'damaged';
    const isRepaired = flags.repair === true && report.isComplete && isRepairable;
    if (!flags.json) printData(describeVerification(report, isRepaired));
    if (!isRepaired) {
      if (flags.json) printJson(verificationData(report));
      return isClean(report) ? EXIT_CODES.ok : EXIT_CODES.incomplete;
    }
    const { describeRepaired, repair, stillListed } = await import('./repair.ts');
    const { progressOf } = await import('./sync.ts');
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

function readNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('A whole number is needed.');
}
