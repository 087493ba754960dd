import { MirrorError } from '../../lib/errors/errors.ts';
import { nameFault } from '../../lib/paths/file-name.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import type { ZipEntry } from '../../lib/zip/directory.ts';
import { ENCRYPTION_FLAGS, METHODS } from '../../lib/zip/entry-facts.ts';
import type { SkippedEntry } from '../store/manifest.ts';

const NAME_SHOWN = 200;

/** A name for messages: quoted, shortened, and without control or invisible characters. */
export function quoted(name: string): string {
  const shown = name.length > NAME_SHOWN ? `${name.slice(0, NAME_SHOWN)}…` : name;
  return JSON.stringify(shown).replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`,
  );
}

/** The error for an archive that the policy refuses. @param advice a remedy */
export function refused(message: string, advice = 'Correct it in the service'): MirrorError {
  return new MirrorError('archive.refused', message, {
    hint: `The published tree stays as it is. ${advice}; it is tried again when its versions change, after an hour, or at once by \`retry\`.`,
  });
}

/** The error for an entry for which the policy refuses the archive; the fault follows the entry's name. */
export function refusedEntry(name: string, fault: string, advice?: string): MirrorError {
  return refused(`The archive's entry ${quoted(name)} ${fault}.`, advice);
}

/** The error for a damaged archive: another download may succeed. */
export function damaged(message: string, cause?: unknown): MirrorError {
  return new MirrorError('archive.damaged', message, {
    cause,
    hint: 'If it keeps failing, look for a proxy that changes or cuts answers.',
  });
}

/** The error for a damaged entry; the fault follows the entry's name. */
export function damagedEntry(name: string, fault: string, cause?: unknown): MirrorError {
  return damaged(`The archive's entry ${quoted(name)} ${fault}.`, cause);
}

/** The error for an entry whose local header is not where the directory says. */
export function misplaced(name: string): MirrorError {
  return damagedEntry(name, 'is not where the directory says');
}

/** Limits for an acceptable archive. */
export interface ArchiveLimits {
  /** Most bytes of all files together, as the archive claims them; no entry gives more than it claims. */
  readonly maxUnpackedBytes: number;
  /** Most entries, and most files and folders that they create. */
  readonly maxEntries: number;
  /** The treatment of names in one folder that differ only in case or Unicode form. */
  readonly nameTwins: 'refuse' | 'accept';
}

/** The error for an archive whose files have too many bytes together. @param name the largest entry, or the one over the limit */
export function sizeRefusal(name: string, fault: string, { maxUnpackedBytes }: ArchiveLimits): MirrorError {
  return refusedEntry(
    name,
    `${fault}, and archive.maxUnpackedSize allows ${maxUnpackedBytes}`,
    'Make it smaller in the service, or raise archive.maxUnpackedSize',
  );
}

/** The error for an archive with too many entries, or files and folders. */
export function countRefusal(what: string, { maxEntries }: ArchiveLimits): MirrorError {
  return refused(
    `The archive ${what}, and archive.maxEntries allows ${maxEntries}.`,
    'Make it smaller in the service, or raise archive.maxEntries',
  );
}

const NAME_BYTES_PER_ENTRY = 128;
const LEAST_NAME_BYTES = 16 * 1024 * 1024;

/** Most bytes of all names of an archive: they are held in memory until it is unpacked. */
export function maxNameBytes({ maxEntries }: ArchiveLimits): number {
  return Math.max(LEAST_NAME_BYTES, maxEntries * NAME_BYTES_PER_ENTRY);
}

/** The facts that the policy needs. */
export type RawEntry = Pick<
  ZipEntry,
  'name' | 'isDecodable' | 'unixMode' | 'flags' | 'compressionMethod' | 'sizeBytes'
>;

/** The decision about an entry. Paths have no slash at either end. */
export type EntryVerdict =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'skip'; readonly path: string; readonly reason: SkippedEntry['reason'] }
  /** The fault follows the entry's name: `is encrypted`. */
  | { readonly kind: 'refuse'; readonly fault: string };

const S_IFMT = 0o170000;
const S_IFREG = 0o100000;
const S_IFDIR = 0o040000;
const S_IFLNK = 0o120000;

/** Bit 5: the content is a patch to another file (APPNOTE 6.3.10, section 4.4.4). */
const PATCH_FLAG = 0x20;

/**
 * Decides on one entry. Links and special files are left out and named in the manifest: no entry in the mirror ever
 * points anywhere. A name that could leave the tree, or that systems read differently, refuses the archive, even if
 * the entry would be left out. Permissions, owners and the data of hard links (Info-ZIP's extra field 0x000d) are ignored.
 */
export function judgeEntry(entry: RawEntry): EntryVerdict {
  const name = withoutDots(entry.name);
  const path = name.endsWith('/') ? name.slice(0, -1) : name;
  // `./` is the folder of the tree itself.
  const isRoot = name === '' && entry.name !== '';
  const fault = entry.isDecodable
    ? ((isRoot ? null : nameFault(path)) ?? flagFault(entry.flags))
    : 'has a name that cannot be decoded';
  if (fault !== null) return { kind: 'refuse', fault };
  return judgeKind(entry, path);
}

/** A name without its `.` segments: many programs write `./a` for `a`. The rest is judged as it is. */
function withoutDots(name: string): string {
  return name.includes('./') ? name.replaceAll(/(?<=^|\/)(?:\.\/)+/g, '') : name;
}

function judgeKind(entry: RawEntry, path: string): EntryVerdict {
  const type = entry.unixMode & S_IFMT;
  if (entry.name.endsWith('/') || type === S_IFDIR) {
    return entry.sizeBytes > 0
      ? { kind: 'refuse', fault: 'is a folder that has content' }
      : { kind: 'folder', path };
  }
  if (type !== 0 && type !== S_IFREG) return judgeSpecial(type === S_IFLNK, entry.sizeBytes, path);
  const { compressionMethod } = entry;
  return compressionMethod === METHODS.stored || compressionMethod === METHODS.deflated
    ? { kind: 'file', path }
    : { kind: 'refuse', fault: `is compressed with the unknown method ${compressionMethod}` };
}

/** No checksum covers an entry's kind: an entry with more content than its kind allows is a file with a damaged kind. */
function judgeSpecial(isLink: boolean, sizeBytes: number, path: string): EntryVerdict {
  if (isLink) {
    return sizeBytes > MAX_LINK_BYTES
      ? { kind: 'refuse', fault: `is a symbolic link of more than ${MAX_LINK_BYTES} bytes` }
      : { kind: 'skip', path, reason: 'symbolic-link' };
  }
  return sizeBytes > 0
    ? { kind: 'refuse', fault: 'is a special file that has content' }
    : { kind: 'skip', path, reason: 'special-file' };
}

function flagFault(flags: number): string | null {
  if ((flags & ENCRYPTION_FLAGS) !== 0) return 'is encrypted';
  return (flags & PATCH_FLAG) === 0 ? null : 'is a patch to another file';
}

/** PATH_MAX of Linux: the longest target of a symbolic link, in bytes. */
const MAX_LINK_BYTES = 4096;

/** An accepted entry, with the facts for comparison with others. */
export interface TreeEntry {
  readonly kind: 'file' | 'folder' | 'skip';
  /** Without a slash at its end. */
  readonly path: string;
}

/** A name in a folder. Storing the whole path for each would take memory by the square of the depth. */
interface Name {
  readonly kind: TreeEntry['kind'];
  /** The names in it, by their segments; null for a file, and for a folder without any. */
  names: Map<string, Name> | null;
  /** The first segment of each form in it. */
  forms: Map<string, string> | null;
}

/**
 * Judges the entries of an archive together, up to the first refusal; null for none. It refuses a name that occurs twice, is a file and a folder at once or leads through
 * an entry that is left out, and names that a system which ignores case or Unicode form would confuse,
 * unless they are accepted. A folder may be named several times. Folders without their own entries count
 * as well, so that a few deep names cannot make millions of folders.
 */
export function refusalTogether(entries: Iterable<TreeEntry>, limits: ArchiveLimits): MirrorError | null {
  const root: Name = { kind: 'folder', names: null, forms: null };
  let count = 0;
  for (const { path, kind } of entries) {
    let folder = root;
    for (let start = 0; start <= path.length;) {
      const slash = path.indexOf('/', start);
      const [end, kindHere] = slash < 0 ? [path.length, kind] : [slash, 'folder' as const];
      const segment = path.slice(start, end);
      const known = folder.names?.get(segment);
      const refusal =
        known === undefined
          ? collision(folder, path, start, end, limits)
          : clash(path, end, known.kind, kindHere);
      if (refusal !== null) return refusal;
      if (known === undefined) count += 1;
      if (count > limits.maxEntries)
        return countRefusal(`makes more than ${limits.maxEntries} files and folders`, limits);
      folder = known ?? add(folder, segment, kindHere);
      start = end + 1;
    }
  }
  return null;
}

function add(folder: Name, segment: string, kind: TreeEntry['kind']): Name {
  const name: Name = { kind, names: null, forms: null };
  (folder.names ??= new Map()).set(segment, name);
  return name;
}

/** The refusal of a name that differs too little from an earlier one. */
function collision(
  folder: Name,
  path: string,
  start: number,
  end: number,
  { nameTwins }: ArchiveLimits,
): MirrorError | null {
  if (nameTwins === 'accept') return null;
  const segment = path.slice(start, end);
  const form = foldName(segment);
  folder.forms ??= new Map();
  const twin = folder.forms.get(form);
  if (twin === undefined) {
    folder.forms.set(form, segment);
    return null;
  }
  return refusedEntry(
    path.slice(0, end),
    `differs from ${quoted(path.slice(0, start) + twin)} only in case or Unicode form`,
    'Rename one in the service, or set archive.nameTwins to accept',
  );
}

/** The refusal of an entry whose path, up to an end, another entry has as well; null if both mean a folder. */
function clash(
  path: string,
  end: number,
  known: TreeEntry['kind'],
  kind: TreeEntry['kind'],
): MirrorError | null {
  if (known === 'folder' && kind === 'folder') return null;
  if (known !== 'folder' && kind !== 'folder') return refusedEntry(path, 'occurs twice');
  const name = path.slice(0, end);
  if (known !== 'skip' && kind !== 'skip') return refusedEntry(name, 'is a file and a folder at once');
  return end < path.length
    ? refusedEntry(path, `leads through ${quoted(name)}, which is a link or a special file`)
    : refusedEntry(path, 'is a link or a special file, and a folder at once');
}

/** Whether an archive has one folder around everything, judged by its names and the listing. */
export type LeadingFolder =
  | { readonly kind: 'none' }
  | { readonly kind: 'wrapped' | 'unknown'; readonly folder: string };

/**
 * If all files of an archive lie in one folder, finds out whether it belongs to the contents, or whether the service put it
 * around them: the workbooks' paths in the listing show that.
 * @param paths the archive's file paths
 * @param workbookPaths paths of the repository's workbooks, from the listing
 */
export function findLeadingFolder(paths: readonly string[], workbookPaths: Iterable<string>): LeadingFolder {
  const [first] = paths;
  if (first === undefined || !first.includes('/')) return { kind: 'none' };
  const folder = first.slice(0, first.indexOf('/'));
  if (!paths.every((path) => path.startsWith(`${folder}/`))) return { kind: 'none' };
  const names = new Set(paths.map((path) => path.normalize('NFC')));
  let asIs = 0;
  let wrapped = 0;
  for (const path of workbookPaths) {
    const name = path.normalize('NFC');
    if (names.has(name)) asIs += 1;
    if (names.has(`${folder.normalize('NFC')}/${name}`)) wrapped += 1;
  }
  if (asIs === wrapped) return { kind: 'unknown', folder };
  return wrapped > asIs ? { kind: 'wrapped', folder } : { kind: 'none' };
}
