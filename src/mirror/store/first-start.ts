import { lstat, readdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join, parse } from 'node:path';

import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { resolvedPath } from '../../lib/disk/mounts.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';

/** Names in the topmost folder of a volume (mkfs.ext4(8), snapshots of NetApp and ZFS): with nothing else, it is empty. */
const OF_FILE_SYSTEMS: ReadonlySet<string> = new Set(['lost+found', '.snapshot', '.zfs']);

/** Names that the embedded service keeps in its directory: no other directory holds two of them. */
const OF_SERVER: readonly string[] = ['repositories', 'repositories.json', 'serve.lock', 'keys', 'external'];

/** How many names a refusal shows. */
const NAMES_SHOWN = 5;

/**
 * Keeps a mirror from being made inside other data: a directory that holds no mirror yet must be empty.
 * @param adopt whether a person says that the mirror belongs beside what is there
 * @throws MirrorError `directory.unusable`
 */
export async function refuseForeignDirectory(layout: DirectoryLayout, adopt: boolean): Promise<void> {
  const names = (await unlessMissing(readdir(layout.root))) ?? [];
  if (await holdsMirror(layout, names)) return;
  const root = await resolvedPath(layout.root);
  if (root === parse(root).root) {
    throw refused(`${root} is the root of the file system`, 'Choose a folder of its own for the mirror.');
  }
  if (OF_SERVER.filter((name) => names.includes(name)).length > 1) {
    throw refused(
      `${layout.root} is the directory of an embedded service (serve.directory)`,
      'Choose a folder of its own for the mirror.',
    );
  }
  const outer = await mirrorAround(root);
  if (outer !== null) {
    throw refused(`${layout.root} lies inside another mirror, ${outer}`, 'Choose a folder outside of it.');
  }
  if (adopt) return;
  const others = names.filter((name) => !OF_FILE_SYSTEMS.has(name)).sort();
  // The home directory of a system user may be the directory of its mirror, if it holds nothing else.
  if (others.length === 0) return;
  const what =
    root === (await resolvedPath(homedir()))
      ? 'is the home directory of this user, and holds'
      : 'holds no mirror yet, but';
  throw refused(
    `${layout.root} ${what} ${listed(others)}`,
    `Choose a folder that is empty or does not exist yet. ${adoptHint()}`,
  );
}

/** Whether a folder is the directory of a mirror: one that was begun, or one that a backup without private folders brought back. */
async function holdsMirror(
  layout: Pick<DirectoryLayout, 'internal' | 'mirror' | 'manifests' | 'targetList'>,
  names: readonly string[],
): Promise<boolean> {
  const has = (path: string): boolean => names.includes(basename(path));
  const isFolder = async (path: string): Promise<boolean> =>
    has(path) && (await unlessMissing(lstat(path)))?.isDirectory() === true;
  if (await isFolder(layout.internal)) return true;
  if (!(await isFolder(layout.manifests))) return false;
  return has(layout.targetList) || (await isFolder(layout.mirror));
}

/** The directory of the mirror that a folder lies in; null for none. */
async function mirrorAround(folder: string): Promise<string | null> {
  for (let above = dirname(folder); above !== dirname(above); above = dirname(above)) {
    const found = await lstat(join(above, basename(layoutOf(above).internal))).catch(() => null);
    if (found?.isDirectory() === true) return above;
  }
  return null;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).map((name) => JSON.stringify(name));
  const more = names.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function adoptHint(): string {
  return `If the mirror is to stand beside what is there: \`${ownCommand('sync --adopt')}\`, once.`;
}

function refused(what: string, hint: string): MirrorError {
  return new MirrorError('directory.unusable', `directory: ${what}: no mirror is made there.`, { hint });
}
