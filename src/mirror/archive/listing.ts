import type { DirectoryPlace } from '../../lib/zip/end-record.ts';
import { entriesOf, type ZipEntry, ZipCountFault, ZipEntryFault } from '../../lib/zip/directory.ts';
import type { ZipBytes } from '../../lib/zip/zip-bytes.ts';
import {
  type ArchiveLimits,
  damagedEntry,
  entryRefusal,
  type EntryVerdict,
  judgeEntry,
  maxNameBytes,
  type Refusals,
  sizeRefusal,
} from './policy.ts';

/** An entry that the policy took. */
export interface ListedEntry {
  readonly entry: ZipEntry;
  readonly verdict: Exclude<EntryVerdict, { kind: 'refuse' }>;
}

/**
 * Lists the central directory and judges each entry by itself.
 * @param refusals collects what is refused
 * @throws MirrorError `archive.damaged`, and `archive.refused` where something was refused before the list ended too early;
 *   ZipFault; Error where the archive cannot be read
 */
export async function listEntries(
  bytes: ZipBytes,
  place: DirectoryPlace,
  limits: ArchiveLimits,
  refusals: Refusals,
): Promise<ListedEntry[]> {
  const entries: ListedEntry[] = [];
  const mostNameBytes = maxNameBytes(limits);
  let greatest: Pick<ZipEntry, 'name' | 'sizeBytes'> = { name: '', sizeBytes: -1 };
  let totalBytes = 0;
  let nameBytes = 0;
  try {
    for await (const listed of entriesOf(bytes, place)) {
      for (const entry of listed) {
        totalBytes += entry.sizeBytes;
        if (entry.sizeBytes > greatest.sizeBytes) greatest = entry;
        const verdict = judgeEntry(entry);
        if (verdict.kind === 'refuse') {
          refusals.add(entryRefusal(entry.name, verdict.fault));
          continue;
        }
        const isFirstBeyond = nameBytes <= mostNameBytes;
        nameBytes += entry.nameBytes.length;
        if (nameBytes <= mostNameBytes) entries.push({ entry, verdict });
        else if (isFirstBeyond) {
          refusals.add(entryRefusal(entry.name, 'and those before it have too many bytes of names together'));
        }
      }
    }
  } catch (error) {
    endedAt(error, refusals);
  }
  if (totalBytes > limits.maxUnpackedBytes) refusals.add(sizeRefusal(totalBytes, greatest, limits));
  return entries;
}

/** Says why the list ended too early. @throws always */
function endedAt(error: unknown, refusals: Refusals): never {
  if (error instanceof ZipCountFault) throw error;
  refusals.throwIfAny();
  if (!(error instanceof ZipEntryFault)) throw error;
  throw damagedEntry(error.entryName, `cannot be listed: ${error.message}`, error);
}
