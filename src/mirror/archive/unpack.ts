import { readdirSync, rmSync } from 'node:fs';
import { setImmediate as pause } from 'node:timers/promises';

import { callError } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { METHODS, type ZipEntry } from '../../lib/zip/directory.ts';
import { EntryFile, type EntryOutcome } from '../file-work/entry-file.ts';
import { dropFiles } from '../file-work/trees.ts';
import type { StopFlag } from '../file-work/trees.ts';
import type { SkippedEntry } from '../store/manifest.ts';
import { Arrival, type ArrivalOptions, type EntryResult, isAsKnown, type Tail } from './arrival.ts';
import { examine, type PlacedEntry } from './directory.ts';
import { damagedEntry } from './policy.ts';

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
  readonly kind: 'unpacked';
  /** In the order in which they lie in the archive. */
  readonly entries: readonly UnpackedEntry[];
  readonly skipped: readonly SkippedEntry[];
}

/** `lost`: it can only be judged with all of its bytes at hand, and not all of them were kept. */
export type FinishedArchive = UnpackedArchive | { readonly kind: 'lost' };

const LOST = { kind: 'lost' } as const;

/** An archive that arrives in this thread. */
interface Arriving {
  readonly arrival: Arrival;
  readonly options: ArrivalOptions;
  /** The end of the task before: one is done after the other. */
  last: Promise<unknown>;
}

const arriving = new Map<number, Arriving>();

/** An archive in a request to a thread: each has a number. */
interface Numbered {
  readonly id: number;
}

/** Begins with an archive, from its first byte. Files that were unpacked of it before are removed. */
export async function openArchive({ id, ...options }: ArrivalOptions & Numbered): Promise<void> {
  const { tree } = options;
  const isAgain = arriving.has(id);
  await abandonArchive({ id });
  if (isAgain)
    for (const name of readdirSync(tree)) rmSync(`${tree}/${name}`, { recursive: true, force: true });
  arriving.set(id, { arrival: new Arrival(options), options, last: Promise.resolve() });
}

/**
 * Takes the next bytes of an archive.
 * @param request its memory is not read any more when the task has ended
 * @throws MirrorError `disk.*`
 */
export function feedArchive(
  request: Numbered & { readonly memory: ArrayBufferLike; readonly lengthBytes: number },
): Promise<void> {
  return after(request, ({ arrival }) => arrival.feed(Buffer.from(request.memory, 0, request.lengthBytes)));
}

/**
 * Compares an archive that has come with its directory, and unpacks the entries that were kept. Files that were made of links and
 * folders are removed: the directory alone says that an entry is one of these.
 * @param onBytes receives the number of bytes that are unpacked, of entries that were kept
 * @throws MirrorError `archive.damaged`, `archive.refused`, `disk.*`; Error where it is to stop
 */
export function finishArchive(
  request: Numbered & { readonly stop: StopFlag },
  onBytes: (bytes: number) => void,
): Promise<FinishedArchive> {
  return after(request, ({ arrival, options }) => finish(arrival, options, request.stop, onBytes));
}

/** Lets go of an archive. Files that were unpacked of it go with the stage. */
export async function abandonArchive({ id }: Numbered): Promise<void> {
  const found = arriving.get(id);
  arriving.delete(id);
  await found?.last.catch(() => {});
  await found?.arrival.close();
}

function after<T>({ id }: Numbered, work: (found: Arriving) => Promise<T>): Promise<T> {
  const found = arriving.get(id);
  if (found === undefined) throw new TypeError('no such archive arrives in this thread');
  const done = found.last
    .then(() => work(found))
    .catch((error: unknown) => {
      throw callError(error, 'unpacking the archive', found.options.tree);
    });
  found.last = done;
  return done;
}

async function finish(
  arrival: Arrival,
  options: ArrivalOptions,
  stop: StopFlag,
  onBytes: (bytes: number) => void,
): Promise<FinishedArchive> {
  const tail = arrival.end();
  const placed = tail === null ? null : await examined(arrival, tail, options);
  if (tail === null || placed === null) return LOST;
  const entries: UnpackedEntry[] = [];
  const skipped: SkippedEntry[] = [];
  const dropped: string[] = [];
  for (const each of placed) {
    const { entry, verdict } = each;
    const came = arrival.entries.get(entry.headerOffset);
    if (verdict.kind === 'skip') skipped.push({ path: verdict.path, reason: verdict.reason });
    if (verdict.kind !== 'file') {
      if ((await came?.outcome)?.kind === 'written') dropped.push(verdict.path);
      continue;
    }
    const result = came ?? (await unpackKept(arrival, tail, options, stop, each));
    if (came === undefined) onBytes(entry.sizeBytes);
    const { outcome } = result;
    const settled = outcome instanceof Promise ? await outcome : outcome;
    const unpacked = unpackedEntry(entry, verdict.path, result, settled);
    if (unpacked === null) return LOST;
    entries.push(unpacked);
  }
  dropFiles(options.tree, dropped);
  return { kind: 'unpacked', entries, skipped };
}

/** The entries as the directory has them; null where it does not agree with the entries that came. */
async function examined(
  { entries }: Arrival,
  tail: Tail,
  { limits }: ArrivalOptions,
): Promise<readonly PlacedEntry[] | null> {
  try {
    return await examine(tail.bytes, limits, entries);
  } catch (error) {
    const isDamaged = error instanceof MirrorError && error.code === 'archive.damaged';
    if (entries.size > 0 && isDamaged) return null;
    throw error;
  }
}

/** @returns null where there is no file, although there should be one */
function unpackedEntry(
  { sizeBytes, crc32, modifiedAtMs }: ZipEntry,
  path: string,
  result: EntryResult,
  outcome: EntryOutcome,
): UnpackedEntry | null {
  if (outcome.kind === 'damaged') throw damagedEntry(path, outcome.fault);
  if (outcome.kind === 'none' || result.path !== path) return null;
  const content = outcome.kind === 'same' ? { ...outcome, as: result.known?.path ?? '' } : outcome;
  return { path, sizeBytes, crc32, modifiedAtMs, content };
}

/** Bytes that are read together. */
const PART_BYTES = 256 * 1024;

/** Unpacks an entry that was kept. Between two parts others have their turn in the thread. */
async function unpackKept(
  arrival: Arrival,
  tail: Tail,
  { tree, isPastCache }: ArrivalOptions,
  stop: StopFlag,
  { entry, verdict: { path }, dataOffset }: PlacedEntry,
): Promise<EntryResult> {
  const { compressedBytes, compressionMethod, sizeBytes } = entry;
  const known = arrival.knownFile(path);
  if (isAsKnown(entry, known)) return { path, known, outcome: { kind: 'same', by: 'crc32' } };
  const file = new EntryFile({
    place: `${tree}/${path}`,
    isJudged: true,
    // Some programs call an empty file deflated and give no bytes for it.
    isDeflated: compressionMethod === METHODS.deflated && (compressedBytes !== 0 || sizeBytes !== 0),
    isPastCache,
    known: known?.content ?? null,
    mostBytes: sizeBytes,
    timeMs: known?.timeMs ?? entry.modifiedAtMs,
  });
  try {
    const memory = Buffer.allocUnsafe(Math.min(PART_BYTES, compressedBytes));
    for (let at = 0; at < compressedBytes && !file.isDamaged; at += memory.length) {
      if (Atomics.load(stop, 0) !== 0) throw new Error('The archive is unpacked no further.');
      const part = memory.subarray(0, Math.min(memory.length, compressedBytes - at));
      if (tail.read(part, dataOffset + at) < part.length) break;
      const isLast = at + part.length === compressedBytes;
      for (let usedBytes = file.write(part, isLast); file.isFull;) {
        await file.spill();
        usedBytes += file.write(part.subarray(usedBytes), isLast);
      }
      if (!isLast) await pause();
    }
    return { path, known, outcome: await file.end(entry) };
  } finally {
    await file.close();
  }
}
