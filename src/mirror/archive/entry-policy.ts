import { nameFault } from '../../lib/paths/file-name.ts';
import { ENCRYPTION_FLAGS, METHODS, type ZipEntry } from '../../lib/zip/directory.ts';
import type { SkippedEntry } from '../store/manifest.ts';

/** The facts that the policy goes by. */
export type RawEntry = Pick<
  ZipEntry,
  'name' | 'isDecodable' | 'unixMode' | 'flags' | 'compressionMethod' | 'sizeBytes'
>;

/** The decision about an entry. Paths have no slash at either end. */
export type EntryVerdict =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'skip'; readonly path: string; readonly reason: SkippedEntry['reason'] }
  /** The fault goes on where the entry's name ends: `is encrypted`. */
  | { readonly kind: 'refuse'; readonly fault: string };

const S_IFMT = 0o170000;
const S_IFREG = 0o100000;
const S_IFDIR = 0o040000;
const S_IFLNK = 0o120000;

/** Bit 5: the content is a patch to another file (APPNOTE 6.3.10, section 4.4.4). */
const PATCH_FLAG = 0x20;

/**
 * Decides about one entry. Links and special files are left out and named in the manifest: nothing in the mirror ever
 * points anywhere. A name that could leave the tree, or that no two systems read alike, refuses the archive, also for
 * what would be left out. Permissions, owners and the data of hard links (Info-ZIP's extra field 0x000d) are ignored.
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

/** A name without its folders `.`: many programs write `./a` for `a`. The rest of it is judged as it is. */
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

/** No checksum covers an entry's kind: what holds more than its kind can hold is a file whose kind was spoilt. */
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

/** PATH_MAX of Linux: the longest that a symbolic link can lead, in bytes. */
const MAX_LINK_BYTES = 4096;
