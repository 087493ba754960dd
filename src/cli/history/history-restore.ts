import type { Command } from 'commander';

import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { standardOutput, writeBytes } from '../../lib/process/streams.ts';
import { describeAmount } from '../../lib/text/amount.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { Gauge } from '../../lib/time/gauge.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { loudness } from '../frame/loudness.ts';
import { liveLineOptions, type Outcome, tell } from '../frame/output.ts';
import { type FilesRequest, restoreFilesInto, writeFile } from './restore-files.ts';
import { type Restored, restoreHistory } from './restore-tree.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { parseTime } from '../frame/times.ts';

interface RestoreFlags {
  readonly at?: string;
  readonly to?: string;
  readonly json?: true;
}

/** `history restore` */
export async function runHistoryRestore(command: Command): Promise<Outcome> {
  const [target = '', ...paths] = command.args;
  const { at, to, json }: RestoreFlags = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const atMs = at === undefined ? null : parseTime(at, Date.now());
  if (paths.length > 0 && to === undefined) {
    refuseOutput(paths, json === true);
    await printFile(settings, { target, paths, atMs });
    return {};
  }
  const restored = await showingBytes((onBytes) =>
    paths.length > 0 && to !== undefined
      ? restoreFilesInto(to, settings, { target, paths, atMs }, onBytes)
      : restoreHistory(settings, { target, atMs, to: to ?? null }, onBytes),
  );
  return { data: restored, text: () => describeRestored(restored) };
}

/** Refuses what standard output cannot take: it gets the bytes of one file and nothing else. @throws MirrorError `usage.invalid` */
function refuseOutput(paths: readonly string[], isJson: boolean): void {
  const problem = isJson
    ? '--json and the bytes of a file cannot both go to standard output.'
    : paths.length > 1
      ? `Standard output takes one file, and these are ${paths.length} paths.`
      : standardOutput.isTerminal()
        ? 'Standard output is a terminal, which the bytes of a file would upset.'
        : null;
  if (problem === null) return;
  const hint = 'Give a folder for what is restored: --to FOLDER. Or send one file somewhere: > FILE.';
  throw new MirrorError('usage.invalid', problem, { hint });
}

async function printFile(settings: SettingsFor<'directory'>, request: FilesRequest): Promise<void> {
  const { sizeBytes, ...state } = await writeFile(settings, request, writeBytes);
  if (loudness() !== 'quiet') tell(say`${describeState(state)}: ${counted(sizeBytes, 'byte')}, checked`);
}

/** Shows how far some work is, by the bytes that it tells of. */
async function showingBytes<T>(
  work: (onBytes: (doing: string, bytes: number, totalBytes: number) => void) => Promise<T>,
): Promise<T> {
  const line = createLiveLine(liveLineOptions());
  const gauges = new Map<string, Gauge>();
  try {
    return await work((doing, bytes, totalBytes) => {
      const gauge = gauges.get(doing) ?? new Gauge(totalBytes);
      gauges.set(doing, gauge);
      gauge.add(bytes);
      line.show(() => `${doing} ${describeAmount(gauge.amount())}`);
    });
  } finally {
    line.clear();
  }
}

/** What was restored, for a person. */
function describeRestored({ files, folder, ...state }: Restored): TerminalText {
  return say`${describeState(state)}: ${counted(files, 'file')}, checked byte for byte, now in ${folder}`;
}

function describeState({ target, leftAtMs }: Pick<Restored, 'target' | 'leftAtMs'>): TerminalText {
  return leftAtMs === null
    ? say`${target}, as it is published`
    : say`${target}, as it left the mirror at ${new Date(leftAtMs).toISOString()}`;
}
