import { realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';

import type { Command } from 'commander';

import type { SettingsFor } from '../config/schema.ts';
import { unlessMissing } from '../lib/errors/disk-errors.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { describeAmount } from '../lib/text/amount.ts';
import { Gauge } from '../lib/time/gauge.ts';
import { utcTime } from '../lib/text/humanize.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { keptAt } from '../mirror/plan/retention.ts';
import { say, type TerminalText } from '../lib/text/terminal-text.ts';
import { readHistory } from '../mirror/store/history/history.ts';
import { layoutOf } from '../mirror/store/layout.ts';
import { checkEntry, restoreInto, restoreToMirror } from '../mirror/store/history/restore.ts';
import { entriesOf } from './history.ts';
import { liveLineOptions, type Outcome } from './output.ts';
import { createLiveLine } from './live-line.ts';
import { settingsOf } from './settings-flags.ts';
import { becomeOwnerOf } from '../lib/process/owner.ts';
import { abortOnSignal } from '../lib/process/signals.ts';
import { parseTime } from './times.ts';

/** `history restore` */
export async function runHistoryRestore(command: Command): Promise<Outcome> {
  const [target = ''] = command.args;
  const { at, to }: { at?: string; to?: string } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const request = { target, atMs: at === undefined ? null : parseTime(at), to: to ?? null };
  const restored = await showingBytes((onBytes) => restoreHistory(settings, request, onBytes));
  return { data: restored, text: () => describeRestored(restored) };
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

/** A tree to be restored. */
export interface RestoreRequest {
  readonly target: string;
  /** The state that the mirror had then, in milliseconds since the epoch; null for the latest that is kept. */
  readonly atMs: number | null;
  /** A folder outside of the mirror's directory; null for the mirror itself. */
  readonly to: string | null;
}

/** The step of a restoration: reading the kept tree, or copying it. */
export type RestoreWork = 'checking' | 'copying';

/** A restored tree, and where it is now. */
export interface Restored {
  readonly target: string;
  readonly leftAtMs: number;
  readonly files: number;
  readonly folder: string;
}

/**
 * Restores a tree of the history: into a folder, which works beside a running daemon, or into the mirror, which does not, and where
 * root goes on as the owner of the directory.
 * @param onBytes receives the bytes of each part that was read or copied, and the bytes of all parts
 * @throws MirrorError `target.unknown`, `history.*`, `directory.locked`, `disk.*`
 */
export async function restoreHistory(
  settings: SettingsFor<'directory'>,
  { target, atMs, to }: RestoreRequest,
  onBytes: (doing: RestoreWork, bytes: number, totalBytes: number) => void = () => {},
): Promise<Restored> {
  const layout = layoutOf(settings.directory);
  const folder = to === null ? null : resolve(to);
  if (folder !== null && `${await realPath(folder)}/`.startsWith(`${await realPath(layout.root)}/`)) {
    throw new MirrorError('usage.invalid', `--to ${to ?? ''} lies in the mirror's own directory.`, {
      hint: 'Give a folder elsewhere, or leave --to out to restore into the mirror.',
    });
  }
  const { signal, stopListening } = abortOnSignal();
  try {
    const entries = entriesOf(await readHistory(layout), target, layout.mirror);
    const entry = (atMs === null ? entries.at(-1) : keptAt(entries, atMs)) ?? notKept(target, atMs);
    const whole = await checkEntry(layout, entry, signal, (...args) => onBytes('checking', ...args));
    if (atMs !== null && whole.manifest.publishedAtMs > atMs) notKept(target, atMs);
    if (folder === null) {
      await becomeOwnerOf(settings.directory);
      const { openMirrorStore } = await import('../daemon/start/open-mirror.ts');
      const store = await openMirrorStore(settings);
      try {
        await restoreToMirror(store, whole, Date.now());
      } finally {
        await store.close();
      }
    } else await restoreInto(folder, whole, (...args) => onBytes('copying', ...args));
    return {
      target: entry.path,
      leftAtMs: entry.atMs,
      files: whole.manifest.files.length,
      folder: folder ?? `${layout.mirror}/${entry.path}`,
    };
  } finally {
    stopListening();
  }
}

/** Where a path really leads, as far as it exists. */
async function realPath(path: string): Promise<string> {
  const real = await unlessMissing(realpath(path));
  return real ?? join(await realPath(dirname(path)), basename(path));
}

/** @throws MirrorError `history.not_found` */
export function notKept(target: string, atMs: number | null): never {
  const when = atMs === null ? '' : ` as it was at ${utcTime(atMs)}`;
  throw new MirrorError('history.not_found', `The history does not keep ${target}${when}.`, {
    hint: `\`${ownCommand('history list')}\` shows what is kept; the state since then is the mirror itself.`,
  });
}

/** The restored tree, for a person. */
function describeRestored({ target, leftAtMs, files, folder }: Restored): TerminalText {
  return say`${target}, as it left the mirror at ${new Date(leftAtMs).toISOString()}: ${files} files, checked byte for byte, now in ${folder}`;
}
