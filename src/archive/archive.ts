import { type FileHandle, open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { crc32, inflateRaw } from 'node:zlib';

import { type Entry, fromRandomAccessReaderPromise, getFileNameLowLevel, type ZipFile } from 'yauzl';

import { MirrorError, toMirrorError } from '../model/errors.ts';
import type { SkippedEntry } from '../model/manifest.ts';
import { checkTogether, type EntryVerdict, judgeEntry, type RawEntry, refused } from './entry-policy.ts';
import { readExactly, WindowedReader } from './reader.ts';

const inflate = promisify(inflateRaw);

/** Entries up to this size pass through memory whole; greater ones are streamed. */
const WHOLE_ENTRY_BYTES = 2 * 1024 * 1024;

/** A file in an archive. */
export interface ArchiveEntry {
  /** As the archive has it, with slashes, under the entry policy. */
  readonly path: string;
  readonly sizeBytes: number;
  /** Milliseconds since the epoch; a time without a zone is taken for UTC. */
  readonly modifiedAtMs: number;
  /** The bytes, checked against size and CRC-32 by the time the last chunk is given. */
  readonly read: () => AsyncIterable<Uint8Array>;
  /** The bytes at once, for entries that are small; null for others. Checked. */
  readonly readWhole: () => Promise<Uint8Array | null>;
}

/** An archive whose directory was read and found acceptable. */
export interface Archive {
  readonly entries: readonly ArchiveEntry[];
  readonly skipped: readonly SkippedEntry[];
  readonly close: () => Promise<void>;
}

/**
 * Opens a downloaded zip archive and judges all of its entries before any of them is read.
 * @throws MirrorError `archive.damaged` when it is no whole zip archive, `archive.refused` under the entry policy
 */
export async function openArchive(path: string): Promise<Archive> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    const reader = new WindowedReader(handle.fd);
    const zip = await fromRandomAccessReaderPromise(reader, size, {
      autoClose: false,
      decodeStrings: false,
      validateEntrySizes: true,
    });
    const entries: ArchiveEntry[] = [];
    const skipped: SkippedEntry[] = [];
    const folders: string[] = [];
    const refusals: MirrorError[] = [];
    for await (const entry of zip.eachEntry()) {
      const raw = rawEntry(entry);
      const verdict = judged(raw, refusals);
      if (verdict?.kind === 'folder') folders.push(verdict.path);
      if (verdict?.kind === 'file') entries.push(readable(zip, handle, entry, verdict.path));
      if (verdict?.kind === 'skip') skipped.push({ path: raw.name, reason: verdict.reason });
    }
    if (refusals.length > 0) throw allRefused(refusals);
    checkTogether(
      entries.map((entry) => entry.path),
      folders,
    );
    reader.readsAhead = false;
    return { entries, skipped, close: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw damagedUnlessOurs(error);
  }
}

/** Judges an entry; a refusal is collected, so that a person learns of all of them at once. */
function judged(raw: RawEntry, refusals: MirrorError[]): EntryVerdict | null {
  try {
    return judgeEntry(raw);
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    refusals.push(error);
    return null;
  }
}

const REFUSALS_NAMED = 5;

function allRefused(refusals: readonly MirrorError[]): MirrorError {
  const named = refusals.slice(0, REFUSALS_NAMED).map((refusal) => refusal.message);
  const others = refusals.length - named.length;
  const message = [...named, ...(others > 0 ? [`So are ${others} others.`] : [])].join(' ');
  const hint = refusals[0]?.hint;
  return new MirrorError('archive.refused', message, hint === undefined ? {} : { hint });
}

function rawEntry(entry: Entry): RawEntry {
  return {
    name: decodeName(entry),
    unixMode: entry.externalFileAttributes >>> 16,
    isEncrypted: entry.isEncrypted(),
    compressionMethod: entry.compressionMethod,
  };
}

const UTF8_FLAG = 0x800;

/**
 * Decodes a name: UTF-8 where the archive says so and where the bytes are UTF-8 all the same, as many programs leave the
 * flag out; otherwise code page 437 (APPNOTE 6.3.10, appendix D).
 */
function decodeName(entry: Entry): string {
  const bytes = entry.fileNameRaw;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    if ((entry.generalPurposeBitFlag & UTF8_FLAG) !== 0) return '\uFFFD';
    return getFileNameLowLevel(entry.generalPurposeBitFlag, bytes, [], true);
  }
}

function readable(zip: ZipFile, handle: FileHandle, entry: Entry, path: string): ArchiveEntry {
  const isSmall = entry.uncompressedSize <= WHOLE_ENTRY_BYTES && entry.compressedSize <= WHOLE_ENTRY_BYTES;
  const readWhole = async (): Promise<Uint8Array | null> => {
    if (!isSmall) return null;
    try {
      return await wholeEntry(zip, handle, entry, path);
    } catch (error) {
      throw damagedUnlessOurs(error, path);
    }
  };
  return {
    path,
    sizeBytes: entry.uncompressedSize,
    modifiedAtMs: entry.getLastModDate({ timezone: 'UTC' }).getTime(),
    readWhole,
    read: async function* read() {
      const whole = await readWhole();
      if (whole === null) yield* streamedEntry(zip, entry, path);
      else yield whole;
    },
  };
}

async function wholeEntry(zip: ZipFile, handle: FileHandle, entry: Entry, path: string): Promise<Uint8Array> {
  const { fileDataStart } = await zip.readLocalFileHeaderPromise(entry, { minimal: true });
  const stored = Buffer.allocUnsafe(entry.compressedSize);
  await readExactly(handle.fd, stored, 0, stored.length, fileDataStart);
  const bytes =
    entry.compressionMethod === 0
      ? stored
      : await inflate(stored, { maxOutputLength: Math.max(1, entry.uncompressedSize) });
  check(path, entry, bytes.byteLength, crc32(bytes));
  return bytes;
}

async function* streamedEntry(zip: ZipFile, entry: Entry, path: string): AsyncGenerator<Uint8Array> {
  let sizeBytes = 0;
  let checksum = 0;
  try {
    const stream: AsyncIterable<unknown> = await zip.openReadStreamPromise(entry);
    for await (const chunk of stream) {
      if (!(chunk instanceof Uint8Array)) continue;
      sizeBytes += chunk.byteLength;
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
  } catch (error) {
    throw damagedUnlessOurs(error, path);
  }
  check(path, entry, sizeBytes, checksum);
}

function check(path: string, entry: Entry, sizeBytes: number, checksum: number): void {
  if (sizeBytes !== entry.uncompressedSize || checksum !== entry.crc32) {
    throw damaged(`The archive's entry ${JSON.stringify(path)} does not match its size or CRC-32.`);
  }
}

function damaged(message: string, cause?: unknown): MirrorError {
  return new MirrorError('archive.damaged', message, {
    cause,
    hint: 'The download is repeated by itself. If it keeps failing, look for a proxy that changes or cuts answers.',
  });
}

/** An error of yauzl's, zlib's or of a read that ended early means that the archive is not whole; a disk error stays. */
function damagedUnlessOurs(error: unknown, path?: string): MirrorError {
  if (error instanceof MirrorError) return error;
  if (!(error instanceof Error)) return toMirrorError(error);
  if (/encryption|encrypted/i.test(error.message)) return refused(path ?? 'an entry', 'is encrypted');
  const isDiskError = 'syscall' in error;
  if (isDiskError) {
    return new MirrorError('disk.failed', `Cannot read the downloaded archive: ${error.message}.`, {
      cause: error,
    });
  }
  const where = path === undefined ? 'The archive' : `The archive's entry ${JSON.stringify(path)}`;
  return damaged(`${where} is damaged: ${error.message}.`, error);
}
