import { readdirSync, rmSync } from 'node:fs';

import { callError } from '../../lib/errors/disk-errors.ts';
import { ENCRYPTION_FLAGS, METHODS, type ZipEntry, ZipEntryFault } from '../../lib/zip/directory.ts';
import { isSameContent, type LocalHeader } from '../../lib/zip/local-header.ts';
import { ZipFault } from '../../lib/zip/zip-fault.ts';
import type { EntryOutcome } from '../file-work/entry-file.ts';
import { dropFiles } from '../file-work/trees.ts';
import type { SkippedEntry } from '../store/manifest.ts';
import { type ListedEntry, listEntries } from './directory.ts';
import {
  hasDescriptor,
  headerAt,
  type Known,
  type KnownFile,
  type TakenEntry,
  takeEntry,
  type UnpackOptions,
} from './entry.ts';
import {
  type ArchiveLimits,
  OTHER_CONTENT,
  damaged,
  damagedEntry,
  judgeEntry,
  maxNameBytes,
  misplaced,
  quoted,
} from './policy.ts';
import { Arrival, KeptBytes } from './source.ts';

/** A file of an archive. */
export interface UnpackedEntry {
  /** As the archive has it, with slashes, under the entry policy. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly crc32: number;
  /** Milliseconds since the epoch; a time without a zone is taken for UTC. */
  readonly modifiedAtMs: number;
  readonly content:
    | Extract<EntryOutcome, { kind: 'written' }>
    /** `as`: the path of the known file. */
    | { readonly kind: 'same'; readonly by: 'crc32' | 'sha256'; readonly as: string };
}

/** An archive that was unpacked and found acceptable. */
export interface UnpackedArchive {
  /** In the order in which they lie in the archive. */
  readonly entries: readonly UnpackedEntry[];
  readonly skipped: readonly SkippedEntry[];
}

/**
 * Unpacks an archive into private files while it arrives, by the local headers in front of its entries. From the first entry on of which
 * that cannot be done, the rest is kept in a file. Nothing counts before the directory, which comes last, was found to agree with every
 * header: every byte before it must belong to one entry, and to one only. So nothing is read twice, which the worst zip bombs live
 * on, and nothing is hidden from the directory.
 * @throws MirrorError `archive.damaged` when it is no whole zip archive or contradicts itself, `archive.refused` under the entry policy
 *   or the limits; Error of the disk; the reason of the signal
 */
async function unpackArchive(
  arrival: Arrival,
  options: UnpackOptions,
  signal: AbortSignal,
): Promise<UnpackedArchive> {
  const known: Known = new Map(options.known.map((file) => [file.path, file]));
  const arrived = new Map<number, TakenEntry>();
  try {
    await takeArriving(arrival, arrived, known, options);
    const kept = new KeptBytes(options.keptPath, arrival.position, options.progress, signal);
    try {
      for (let bytes = await arrival.atHand(1); bytes.length > 0; bytes = await arrival.atHand(1)) {
        kept.add(bytes);
        arrival.take(bytes.length);
      }
      return await takeListed(kept, arrived, known, options);
    } finally {
      kept.close();
    }
  } catch (error) {
    if (error instanceof ZipEntryFault)
      throw damagedEntry(error.entryName, `cannot be listed: ${error.message}`, error);
    throw error instanceof ZipFault ? damaged(error.message, error) : error;
  } finally {
    await Promise.allSettled([...arrived.values()].map(({ outcome }) => outcome));
  }
}

/**
 * Takes the entries that can be unpacked while they arrive. It ends before the first one that cannot: as its name is refused, its header
 * does not say where it ends, or it may be more than the limits allow, which the directory then tells exactly.
 * @param arrived receives them, by where their headers lie
 */
async function takeArriving(
  source: Arrival,
  arrived: Map<number, TakenEntry>,
  known: Known,
  options: UnpackOptions,
): Promise<void> {
  const allowance = new Allowance(options.limits);
  for (let last: Promise<unknown> = Promise.resolve(); ;) {
    const header = await headerAt(source);
    const isStreamed = header !== null && hasDescriptor(header);
    if (header === null || (isStreamed && header.compressionMethod !== METHODS.deflated)) return;
    const expected = isStreamed ? null : header.content;
    const sizeBytes = expected?.sizeBytes ?? 0;
    // The directory alone has the mode.
    const verdict = judgeEntry({ ...header, unixMode: 0, sizeBytes });
    if (verdict.kind === 'refuse' || !allowance.admits(verdict.path, header, sizeBytes)) return;
    const path = verdict.kind === 'file' ? verdict.path : null;
    const mostBytes = expected?.sizeBytes ?? allowance.leftBytes;
    const headerOffset = source.position;
    source.take(header.dataOffset - headerOffset);
    const taken = await takeEntry(source, { header, expected, path, mostBytes }, known, options);
    arrived.set(headerOffset, taken);
    if (isStreamed) allowance.leftBytes -= taken.content.sizeBytes;
    // No more than two files are written at a time.
    await last;
    last = taken.outcome;
  }
}

/** The bounds of what is unpacked before the directory is known. */
class Allowance {
  leftBytes: number;
  private _leftNameBytes: number;
  /** Files and folders that may be made. */
  private _leftCount: number;
  private _lastFolder = '';

  constructor(limits: ArchiveLimits) {
    this.leftBytes = limits.maxUnpackedBytes;
    this._leftNameBytes = maxNameBytes(limits);
    this._leftCount = limits.maxEntries;
  }

  /** Whether an entry is within the bounds. A folder that is left and entered again counts twice. */
  admits(path: string, { nameBytes }: LocalHeader, sizeBytes: number): boolean {
    const folder = path.slice(0, path.lastIndexOf('/') + 1);
    this._leftCount -= folder === this._lastFolder ? 1 : folder.split('/').length;
    this._lastFolder = folder;
    this._leftNameBytes -= nameBytes.length;
    this.leftBytes -= sizeBytes;
    return Math.min(this._leftCount, this._leftNameBytes, this.leftBytes) >= 0;
  }
}

/** Holds the directory against the entries that arrived, and takes those that were kept. Files made of links and folders are removed. */
async function takeListed(
  kept: KeptBytes,
  arrived: ReadonlyMap<number, TakenEntry>,
  known: Known,
  options: UnpackOptions,
): Promise<UnpackedArchive> {
  const entries: UnpackedEntry[] = [];
  const skipped: SkippedEntry[] = [];
  const dropped: string[] = [];
  const lastTaken = [...arrived.values()].at(-1)?.header.name ?? null;
  for (const { entry, verdict, next } of listEntries(kept, options.limits, lastTaken)) {
    const came = arrived.get(entry.headerOffset);
    const header = came?.header ?? (await keptHeader(kept, entry));
    const fault = contradiction(header, entry, next);
    if (fault !== null) throw damagedEntry(entry.name, fault);
    const path = verdict.kind === 'file' ? verdict.path : null;
    const expected = { header, expected: entry, path, mostBytes: entry.sizeBytes };
    const taken = came ?? (await takeEntry(kept, expected, known, options));
    if (!isSameContent(taken.content, entry)) throw damagedEntry(entry.name, OTHER_CONTENT);
    if (taken.endOffset !== next.offset)
      throw damagedEntry(entry.name, 'is followed by bytes that belong to no entry');
    const outcome = await taken.outcome;
    if (path !== null) entries.push(unpackedEntry(entry, path, taken.known, outcome));
    else if (outcome.kind === 'written') dropped.push(verdict.path);
    if (verdict.kind === 'skip') skipped.push({ path: verdict.path, reason: verdict.reason });
  }
  dropFiles(options.tree, dropped);
  return { entries, skipped };
}

/** Goes to the content of an entry that was kept. @throws MirrorError `archive.damaged` where its header is not there */
async function keptHeader(kept: KeptBytes, { name, headerOffset }: ZipEntry): Promise<LocalHeader> {
  if (headerOffset < kept.startBytes) throw misplaced(name);
  kept.seek(headerOffset);
  const header = await headerAt(kept);
  if (header === null) throw misplaced(name);
  kept.seek(header.dataOffset);
  return header;
}

/** How a local header contradicts the directory: the sentence goes on where the entry's name ends; null where it does not. */
function contradiction(header: LocalHeader, entry: ZipEntry, next: ListedEntry['next']): string | null {
  if (header.nameBytes !== entry.nameBytes) return `has another name, ${quoted(header.name)}, at its content`;
  if (header.compressionMethod !== entry.compressionMethod || (header.flags & ENCRYPTION_FLAGS) !== 0)
    return 'is packed in another way than the directory says';
  if (!hasDescriptor(header) && !isSameContent(header.content, entry)) return OTHER_CONTENT;
  return header.dataOffset + entry.compressedBytes > next.offset ? `overlaps ${next.name}` : null;
}

function unpackedEntry(
  { name, sizeBytes, crc32, modifiedAtMs }: ZipEntry,
  path: string,
  known: KnownFile | null,
  outcome: EntryOutcome,
): UnpackedEntry {
  switch (outcome.kind) {
    case 'written':
      return { path, sizeBytes, crc32, modifiedAtMs, content: outcome };
    case 'same':
      return { path, sizeBytes, crc32, modifiedAtMs, content: { ...outcome, as: known?.path ?? path } };
    case 'damaged':
      throw damagedEntry(name, outcome.fault);
    case 'taken':
    case 'none':
      throw damagedEntry(name, 'has the place of another entry');
  }
}

/** The archives that arrive in this thread, by their numbers. */
const arriving = new Map<number, { readonly arrival: Arrival; readonly control: AbortController }>();

/** An archive in a request to a thread. */
interface Numbered {
  readonly id: number;
}

/**
 * Receives an archive, and unpacks it. Files that were unpacked in a try before are removed.
 * @throws MirrorError `archive.damaged`, `archive.refused`, `disk.*`; Error where it is abandoned
 */
export async function receiveArchive({ id, ...options }: UnpackOptions & Numbered): Promise<UnpackedArchive> {
  const control = new AbortController();
  const arrival = new Arrival(control.signal);
  arriving.set(id, { arrival, control });
  try {
    for (const name of readdirSync(options.tree))
      rmSync(`${options.tree}/${name}`, { recursive: true, force: true });
    return await unpackArchive(arrival, options, control.signal);
  } catch (error) {
    throw callError(error, 'unpacking the archive', options.tree);
  } finally {
    arriving.delete(id);
    arrival.close();
  }
}

/** Takes the next bytes of an archive, unless it has failed. They are not read any more when the task has ended. */
export async function feedArchive(
  request: Numbered & { readonly memory: ArrayBufferLike; readonly lengthBytes: number },
): Promise<void> {
  const { id, memory, lengthBytes } = request;
  await arriving.get(id)?.arrival.feed(Buffer.from(memory, 0, lengthBytes));
}

/** Ends an archive, which has come whole or is abandoned. */
export function endArchive({ id, isWhole }: Numbered & { readonly isWhole: boolean }): void {
  const found = arriving.get(id);
  if (isWhole) found?.arrival.end();
  else found?.control.abort(new Error('The archive is abandoned.'));
}
