import { resolve } from 'node:path';

import type { Command } from 'commander';

import type { SettingsFor } from '../../config/schema.ts';
import { closing } from '../../lib/concurrency/shared-work.ts';
import { LockedError } from '../../lib/disk/lock.ts';
import { resolvedPath } from '../../lib/disk/mounts.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { standardOutput, writeBytes } from '../../lib/process/streams.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { describeAmount, Gauge } from '../../lib/time/gauge.ts';
import {
  findFiles,
  type OnBytes,
  restoreInto,
  restoreToMirror,
  sizeOf,
  type TargetState,
  writeFound,
} from '../../mirror/store/history/restore.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { loudness, type Outcome, tell } from '../frame/output.ts';
import { parseTime } from '../frame/times.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { type FilesRequest, lookUp, notKept } from './kept-files.ts';

/** `history restore` */
export async function runHistoryRestore(command: Command): Promise<Outcome> {
  const [target = '', ...paths] = command.args;
  const { at, to, json }: { at?: string; to?: string; json?: true } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const request = { target, paths, atMs: at === undefined ? null : parseTime('--at', at, Date.now()) };
  if (paths.length > 0 && to === undefined) {
    refuseOutput(paths, json === true);
    const written = await writeFile(settings, request, writeBytes);
    if (loudness() !== 'quiet')
      tell(say`${describeState(written)}: ${counted(written.sizeBytes, 'byte')}, checked`);
    return {};
  }
  const line = createLiveLine();
  const wish = { ...request, to: to ?? null };
  const restored = await restoreHistory(settings, wish, line.show).finally(line.clear);
  const { files, folder } = restored;
  const text = `${describeState(restored)}: ${counted(files, 'file')}, checked byte for byte, now in ${folder}`;
  return { data: restored, text: () => text };
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

function describeState({ target, leftAtMs }: ReturnType<typeof restoredOf>): string {
  return leftAtMs === null
    ? `${target}, the published state`
    : `${target}, the state that left the mirror at ${new Date(leftAtMs).toISOString()}`;
}

/**
 * Restores files of the history: into a folder, also beside a running daemon, or into the mirror, which needs its lock. For the mirror,
 * root becomes the owner of the directory.
 * @param to a folder outside of the mirror's directory; null for the mirror itself
 * @param show shows the progress
 * @throws MirrorError `usage.invalid`, `target.unknown`, `history.*`, `directory.locked`, `disk.*`, `pass.abandoned`
 */
export async function restoreHistory(
  settings: SettingsFor<'directory'>,
  { to, ...request }: FilesRequest & { readonly to: string | null },
  show: (text: () => string) => void = () => {},
) {
  const layout = layoutOf(settings.directory);
  const folder = to === null ? null : await folderOutside(to, layout.root);
  return untilStopped(
    async (signal) => {
      const { state, files } = await lookUp(layout, request);
      if (folder === null && state.left === null) notKept(request.target, request.atMs, state.manifest);
      const gauged = (doing: string): OnBytes => {
        const gauge = new Gauge(sizeOf(files));
        return (bytes) => {
          gauge.add(bytes);
          show(() => `${doing} ${describeAmount(gauge.amount())}`);
        };
      };
      const found = await findFiles(layout, state, files, signal, gauged('checking'));
      if (folder === null) {
        await becomeOwnerOf(settings.directory);
        const { openMirrorStore } = await import('../../app/open-mirror.ts');
        const store = await openMirrorStore(settings).catch(elsewhereIfLocked);
        await closing({ close: () => store.lock.release() }, () =>
          restoreToMirror(store, state, found, Date.now(), signal),
        );
      } else await restoreInto(folder, found, signal, gauged('copying'));
      return { ...restoredOf(state, files), folder: folder ?? `${layout.mirror}/${state.path}` };
    },
    { outcome: 'nothing was restored' },
  );
}

/** @throws the given error; if a daemon has the directory, with a hint for restoring beside it */
function elsewhereIfLocked(error: unknown): never {
  if (!(error instanceof LockedError)) throw error;
  throw new MirrorError('directory.locked', error.message, {
    cause: error,
    hint: 'Restore into another folder: --to FOLDER. To restore into the mirror itself, stop the daemon.',
  });
}

/**
 * Writes the bytes of one file, after reading and checking them. If they change between the two, it fails part-way.
 * @throws MirrorError as {@link restoreHistory}; `usage.invalid` for a folder with several files
 */
export async function writeFile(
  settings: SettingsFor<'directory'>,
  request: FilesRequest,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<ReturnType<typeof restoredOf>> {
  const layout = layoutOf(settings.directory);
  const { state, files } = await lookUp(layout, request);
  if (files.length > 1) {
    throw new MirrorError('usage.invalid', `${JSON.stringify(request.paths?.[0])} is a folder.`, {
      hint: 'Standard output takes one file. Give a folder for it and all below it: --to FOLDER.',
    });
  }
  // A signal, or the reader, may end the whole process: there is nothing to clean up.
  const found = await findFiles(layout, state, files, new AbortController().signal, () => {});
  await writeFound(found, write);
  return restoredOf(state, files);
}

/** A restored state, for `--json`; `leftAtMs` is null for the published one. */
function restoredOf({ path, left }: TargetState, files: readonly ManifestFile[]) {
  return { target: path, leftAtMs: left?.atMs ?? null, files: files.length, sizeBytes: sizeOf(files) };
}

/** The folder to restore into, absolute. @throws MirrorError `usage.invalid` if it is in the directory of the mirror */
async function folderOutside(to: string, root: string): Promise<string> {
  const folder = resolve(to);
  const real = await onDisk(`looking at ${to}`, () => resolvedPath(folder));
  if (!`${real}/`.startsWith(`${await resolvedPath(root)}/`)) return folder;
  throw new MirrorError('usage.invalid', `--to ${to} is in the mirror's own directory.`, {
    hint: 'Give a folder elsewhere.',
  });
}
