import { ENCRYPTION_FLAGS, entriesOf, type ZipEntry } from '../../lib/zip/directory.ts';
import { type DirectoryPlace, END_AREA_BYTES, readEnd } from '../../lib/zip/end-record.ts';
import { hasDescriptor, isSameContent, type LocalHeader } from '../../lib/zip/local-header.ts';
import {
  type ArchiveLimits,
  countRefusal,
  damaged,
  damagedEntry,
  entryRefusal,
  type EntryVerdict,
  judgeEntry,
  maxNameBytes,
  misplaced,
  quoted,
  refuse,
  Refusals,
  refusalsTogether,
  sizeRefusal,
} from './policy.ts';
import type { KeptBytes } from './source.ts';

/** The directory's name for messages. */
const DIRECTORY = "the archive's directory";

/** An entry that the policy took. */
export interface ListedEntry {
  readonly entry: ZipEntry;
  readonly verdict: Exclude<EntryVerdict, { kind: 'refuse' }>;
  /** The start of what follows it, the next entry or the directory, and its name for messages. */
  readonly next: { readonly offset: number; readonly name: string };
}

/**
 * Reads the directory of an archive, and judges all of its entries, each alone and together.
 * @param lastTaken the name of the last entry that is not among the bytes that were kept; null for none
 * @returns the entries in the order of the archive
 * @throws ZipFault; MirrorError `archive.damaged`, `archive.refused`; Error of the disk
 */
export function listEntries(
  kept: KeptBytes,
  limits: ArchiveLimits,
  lastTaken: string | null,
): readonly ListedEntry[] {
  const tailBytes = Math.min(kept.sizeBytes - kept.startBytes, END_AREA_BYTES);
  const end = readEnd(kept.read(kept.sizeBytes - tailBytes, tailBytes), kept.sizeBytes);
  if (end.isMultiDisk) refuse({ message: 'The archive is one part of several.' });
  if (end.entryCount > limits.maxEntries) refuse(countRefusal(`has ${end.entryCount} entries`, limits));
  if (lastTaken !== null && end.offset < kept.startBytes)
    throw damagedEntry(lastTaken, `overlaps ${DIRECTORY}`);
  const refusals = new Refusals();
  const judged = judgeEntries(kept, end, limits, refusals);
  const verdicts = judged.map(({ verdict }) => verdict);
  for (const refusal of refusalsTogether(verdicts, limits)) refusals.add(refusal);
  refusals.throwIfAny();
  return inOrder(judged, end.offset);
}

type JudgedEntry = Omit<ListedEntry, 'next'>;

/** Judges each entry alone, and the sums of all. @param refusals collects what is refused @throws ZipFault; Error of the disk */
function judgeEntries(
  kept: KeptBytes,
  end: DirectoryPlace,
  limits: ArchiveLimits,
  refusals: Refusals,
): readonly JudgedEntry[] {
  const judged: JudgedEntry[] = [];
  let greatest: Pick<ZipEntry, 'name' | 'sizeBytes'> = { name: '', sizeBytes: -1 };
  let totalBytes = 0;
  let nameBytes = 0;
  for (const entry of entriesOf((...part) => kept.read(...part), end)) {
    totalBytes += entry.sizeBytes;
    nameBytes += entry.nameBytes.length;
    if (entry.sizeBytes > greatest.sizeBytes) greatest = entry;
    const verdict = judgeEntry(entry);
    if (verdict.kind === 'refuse') refusals.add(entryRefusal(entry.name, verdict.fault));
    else if (nameBytes <= maxNameBytes(limits)) judged.push({ entry, verdict });
  }
  if (nameBytes > maxNameBytes(limits))
    refusals.add({ message: 'The names of the entries of the archive have too many bytes together.' });
  if (totalBytes > limits.maxUnpackedBytes) {
    const fault = `would unpack to ${greatest.sizeBytes} of ${totalBytes} bytes`;
    refusals.add(sizeRefusal(greatest.name, fault, limits));
  }
  return judged;
}

/** The entries in the order of the file. @throws MirrorError `archive.damaged` unless they start it, and lie before the directory */
function inOrder(judged: readonly JudgedEntry[], directoryOffset: number): readonly ListedEntry[] {
  const sorted = [...judged].sort((a, b) => a.entry.headerOffset - b.entry.headerOffset);
  const start = sorted[0]?.entry.headerOffset ?? directoryOffset;
  if (start > 0) throw damaged('The archive does not start with an entry: something is before it.');
  const last = sorted.at(-1)?.entry;
  if (last !== undefined && last.headerOffset >= directoryOffset) throw misplaced(last.name);
  return sorted.map(({ entry, verdict }, index) => {
    const following = sorted[index + 1]?.entry;
    const name = following === undefined ? DIRECTORY : quoted(following.name);
    return { entry, verdict, next: { offset: following?.headerOffset ?? directoryOffset, name } };
  });
}

/** The fault of an entry of which the content, its header or its descriptor is not as the directory says. */
export const OTHER_CONTENT = 'has another size or CRC-32 at its content than in the directory';

/** How a local header contradicts the directory: the sentence goes on where the entry's name ends; null where it does not. */
export function contradiction(header: LocalHeader, { entry, next }: ListedEntry): string | null {
  if (header.nameBytes !== entry.nameBytes) return `has another name, ${quoted(header.name)}, at its content`;
  if (header.compressionMethod !== entry.compressionMethod || (header.flags & ENCRYPTION_FLAGS) !== 0)
    return 'is packed in another way than the directory says';
  if (!hasDescriptor(header) && !isSameContent(header.content, entry)) return OTHER_CONTENT;
  return header.dataOffset + entry.compressedBytes > next.offset ? `overlaps ${next.name}` : null;
}
