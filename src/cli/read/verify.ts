import type { Command } from 'commander';

import type { SettingsFor } from '../../config/schema.ts';
import { refuseMissing } from '../../app/open-reader.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../../lib/errors/errors.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import { readTargetList } from '../../mirror/store/target-list.ts';
import {
  damagedTargets,
  isClean,
  type VerifyOptions,
  type VerifyReport,
  verifyTrees,
} from '../../mirror/store/verify/verify.ts';
import { liveLineOptions, type Outcome, printData, printJson } from '../frame/output.ts';
import { describeRepaired, refuseRepair, repair } from '../change/repair.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { secretsOf } from '../../config/secret.ts';
import { progressOf } from '../change/progress.ts';
import { targetNamed } from '../../app/target-names.ts';
import { createVerifyProgress, describeVerification, verificationData } from './verify-output.ts';
import { standardError, standardOutput } from '../../lib/process/streams.ts';

interface VerifyFlags {
  readonly repair?: true;
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
  const verifyOnce = async (names: readonly string[]): Promise<VerifyReport> => {
    const progress = createVerifyProgress({
      ...liveLineOptions(),
      isReportBelow: flags.json !== true && standardOutput.isTerminal() && standardError.isTerminal(),
      isReportTold: flags.json !== true,
    });
    const expected = flags.expect ?? null;
    const { onEvent } = progress;
    const report = await verify(settings, { targets: names, expected, signal, onEvent });
    progress.finish(report);
    return report;
  };
  try {
    if (flags.repair === true) await refuseRepair(settings);
    const report = await verifyOnce(targets);
    const damaged = damagedTargets(report);
    const isRepairable = damaged.length > 0 || report.inventory === 'damaged';
    const isRepaired = flags.repair === true && report.isComplete && isRepairable;
    if (!flags.json) printData(describeVerification(report, isRepaired));
    if (!isRepaired) {
      if (flags.json) printJson(verificationData(report));
      return isClean(report) ? EXIT_CODES.ok : EXIT_CODES.incomplete;
    }
    const progress = progressOf(secretsOf(settings));
    const repaired = await repair(settings, damaged, needService, progress, signal).finally(progress.close);
    // What is neither published any more nor in the inventory was retired by the pass.
    const known = await knownTargets(layoutOf(settings.directory));
    const after = await verifyOnce(damaged.filter((path) => known.has(path)));
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

/**
 * Holds published trees against their manifests.
 * @param options.targets names as below `mirror/`, or paths on disk; none means everything
 * @throws MirrorError `directory.unusable`, `target.unknown`
 */
export async function verify(
  { directory, shard }: SettingsFor<'directory'>,
  { targets, ...options }: Omit<VerifyOptions, 'chosen'> & { readonly targets: readonly string[] },
): Promise<VerifyReport> {
  await refuseMissing(directory);
  const layout = layoutOf(directory, shard);
  if (targets.length === 0) return verifyTrees(layout, { ...options, chosen: null });
  const known = await knownTargets(layout);
  const chosen = new Set(targets.map((name) => chosenPath(name, known, layout)));
  return verifyTrees(layout, { ...options, chosen });
}

/** The targets that have a manifest, or that the inventory names. */
async function knownTargets(layout: DirectoryLayout): Promise<ReadonlySet<string>> {
  const { targets } = await readTargetList(layout);
  return new Set([...(await manifestPaths(layout)), ...targets.map(({ path }) => path)]);
}

function chosenPath(name: string, known: ReadonlySet<string>, { mirror }: DirectoryLayout): string {
  const path = targetNamed(name, mirror, known);
  if (known.has(path)) return path;
  const close = likely(path, known);
  const lists = `\`${ownCommand('status')}\` lists`;
  throw new MirrorError('target.unknown', `No target that is mirrored is named ${JSON.stringify(name)}.`, {
    hint:
      close === undefined ? `${lists} what is mirrored.` : `The nearest is ${close}. ${lists} all of them.`,
  });
}
