import type { Command } from 'commander';

import { MirrorError } from '../../lib/errors/errors.ts';
import { standardOutput, writeBytes } from '../../lib/process/streams.ts';
import { describeAmount, Gauge } from '../../lib/time/gauge.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { loudness, type Outcome, tell } from '../frame/output.ts';
import { parseTime } from '../frame/times.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { type Restored, restoreHistory, writeFile } from './restore.ts';

/** `history restore` */
export async function runHistoryRestore(command: Command): Promise<Outcome> {
  const [target = '', ...paths] = command.args;
  const { at, to, json }: { at?: string; to?: string; json?: true } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const request = { target, paths, atMs: at === undefined ? null : parseTime(at, Date.now()) };
  if (paths.length > 0 && to === undefined) {
    refuseOutput(paths, json === true);
    const { sizeBytes, ...state } = await writeFile(settings, request, writeBytes);
    if (loudness() !== 'quiet') tell(say`${describeState(state)}: ${counted(sizeBytes, 'byte')}, checked`);
    return {};
  }
  const line = createLiveLine();
  const gauges = new Map<string, Gauge>();
  try {
    const restored = await restoreHistory(
      settings,
      { ...request, to: to ?? null },
      (doing, bytes, totalBytes) => {
        const gauge = gauges.get(doing) ?? new Gauge(totalBytes);
        gauges.set(doing, gauge);
        gauge.add(bytes);
        line.show(() => `${doing} ${describeAmount(gauge.amount())}`);
      },
    );
    const { files, folder } = restored;
    const text = say`${describeState(restored)}: ${counted(files, 'file')}, checked byte for byte, now in ${folder}`;
    return { data: restored, text: () => text };
  } finally {
    line.clear();
  }
}

/** Refuses anything but the bytes of one file for standard output. @throws MirrorError `usage.invalid` */
function refuseOutput(paths: readonly string[], isJson: boolean): void {
  const problem = isJson
    ? 'JSON and the bytes of a file cannot both go to standard output.'
    : paths.length > 1
      ? `Standard output takes one file, not ${paths.length} paths.`
      : standardOutput.isTerminal()
        ? 'Standard output is a terminal, which cannot show the bytes of a file.'
        : null;
  if (problem === null) return;
  const hint = 'Give a folder to restore into, --to FOLDER, or redirect one file: > FILE.';
  throw new MirrorError('usage.invalid', problem, { hint });
}

function describeState({ target, leftAtMs }: Pick<Restored, 'target' | 'leftAtMs'>): string {
  return leftAtMs === null
    ? `${target}, the published state`
    : `${target}, the state that left the mirror at ${new Date(leftAtMs).toISOString()}`;
}
