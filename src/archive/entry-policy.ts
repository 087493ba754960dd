import { MirrorError } from '../model/errors.ts';
import type { SkippedEntry } from '../model/manifest.ts';

/** What an archive's directory says of an entry, as far as the policy needs it. */
export interface RawEntry {
  /** The decoded name. */
  readonly name: string;
  /** The Unix file mode, or 0 where the archive has none. */
  readonly unixMode: number;
  readonly isEncrypted: boolean;
  /** 0 is stored, 8 is deflated (APPNOTE 6.3.10, section 4.4.5). */
  readonly compressionMethod: number;
}

/** What becomes of an entry. */
export type EntryVerdict =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'skip'; readonly reason: SkippedEntry['reason'] };

const S_IFMT = 0o170000;
const S_IFREG = 0o100000;
const S_IFDIR = 0o040000;
const S_IFLNK = 0o120000;

/**
 * Decides about one entry. Links and special files are left out and named in the manifest: nothing in the mirror ever
 * points anywhere. A name that could leave the tree, or that no two systems read alike, refuses the archive.
 * @throws MirrorError `archive.refused`, naming the entry
 */
export function judgeEntry(entry: RawEntry): EntryVerdict {
  const type = entry.unixMode & S_IFMT;
  const isFolder = entry.name.endsWith('/') || type === S_IFDIR;
  const path = entry.name.endsWith('/') ? entry.name.slice(0, -1) : entry.name;
  const fault = nameFault(path);
  if (fault !== null) throw refused(entry.name, fault);
  if (isFolder) return { kind: 'folder', path };
  if (type === S_IFLNK) return { kind: 'skip', reason: 'symbolic-link' };
  if (type !== 0 && type !== S_IFREG) return { kind: 'skip', reason: 'special-file' };
  if (entry.isEncrypted) throw refused(entry.name, 'is encrypted');
  if (entry.compressionMethod !== 0 && entry.compressionMethod !== 8) {
    throw refused(entry.name, `is compressed with the unknown method ${entry.compressionMethod}`);
  }
  return { kind: 'file', path };
}

/** Leaves room for the mirror's own folders below Linux's PATH_MAX of 4096 bytes. */
const MAX_PATH_BYTES = 3000;

/** What is wrong with a name, or null. */
export function nameFault(path: string): string | null {
  if (path === '') return 'has no name';
  if (path.startsWith('/')) return 'has an absolute path';
  if (/\p{Cc}/u.test(path)) return 'has a control character in its name';
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) return `has a path of more than ${MAX_PATH_BYTES} bytes`;
  if (path.includes('\\')) return 'has a backslash in its name';
  if (/^[A-Za-z]:(?:\/|$)/.test(path)) return 'has a drive in its name';
  if (path.includes('\uFFFD')) return 'has a name that cannot be decoded';
  for (const segment of path.split('/')) {
    if (segment === '..' || segment === '.') return 'leads to another folder';
    if (segment === '') return 'has an empty folder name';
    if (Buffer.byteLength(segment) > 255) return 'has a name of more than 255 bytes';
  }
  return null;
}

/**
 * Checks the files of an archive against each other.
 * @throws MirrorError `archive.refused` for a name that occurs twice, or that is a file and a folder at once
 */
export function checkTogether(paths: readonly string[], folders: readonly string[] = []): void {
  const files = new Set<string>();
  for (const path of paths) {
    if (files.has(path)) throw refused(path, 'occurs twice');
    files.add(path);
  }
  for (const folder of folders)
    if (files.has(folder)) throw refused(folder, 'is a file and a folder at once');
  for (const path of paths) {
    for (let slash = path.lastIndexOf('/'); slash > 0; slash = path.lastIndexOf('/', slash - 1)) {
      const folder = path.slice(0, slash);
      if (files.has(folder)) throw refused(folder, 'is a file and a folder at once');
    }
  }
}

/** The error for an entry that the policy does not take. */
export function refused(name: string, fault: string): MirrorError {
  return new MirrorError('archive.refused', `The archive's entry ${JSON.stringify(name)} ${fault}.`, {
    hint: 'The published tree stays as it is. Correct it in the service; it is looked at again when its versions change, or after an hour.',
  });
}
