import { createHash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { crc32 } from 'node:zlib';

import { diskError, onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { formatDuration, formatSize } from '../../lib/text/units.ts';
import {
  announcedBytes,
  type Answer,
  type AnswerHeaders,
  type AnswerLimits,
  type BodyBounds,
  readBody,
  strongTag,
} from './answers.ts';
import type { Cached } from './listing.ts';
import { type Bandwidth, type Continuation, LEAST_PROGRESS_BYTES } from './pace.ts';
import { START_BYTES } from '../../lib/zip/whole-file.ts';
import { FileWindow, type ZipBytes } from '../../lib/zip/zip-bytes.ts';

/** Where a download goes, piece by piece. Nothing is made there before it begins. */
export interface Destination {
  /** How many bytes it holds. */
  readonly sizeBytes: number;
  /** Makes it, or empties it. @throws MirrorError `disk.*` */
  readonly begin: () => Promise<void>;
  /**
   * Adds a piece, whole.
   * @returns what is to be waited for before the next one; null when the piece is there already
   * @throws MirrorError `disk.*`
   */
  readonly write: (piece: Uint8Array) => Promise<void> | null;
  /** Ends the writing. @param isKept whether it stays */
  readonly close: (isKept: boolean) => Promise<void>;
}

/** A file that a download goes to, and that is digested while it comes; one that is there before is removed. */
export class FileDestination implements Destination {
  sizeBytes = 0;
  /** Of the bytes that came. */
  crc32 = 0;
  readonly #path: string;
  #hash = createHash('sha256');
  #file: FileHandle | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  async begin(): Promise<void> {
    this.sizeBytes = 0;
    this.crc32 = 0;
    this.#hash = createHash('sha256');
    await onDisk('writing the download', async () => {
      if (this.#file !== null) return this.#file.truncate(0);
      await rm(this.#path, { force: true });
      this.#file = await open(this.#path, 'wx+');
    });
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#hash.update(piece);
    this.crc32 = crc32(piece, this.crc32);
    try {
      for (let written = 0; written < piece.length;) {
        const { bytesWritten } = await this.#opened.write(piece, written, undefined, this.sizeBytes);
        written += bytesWritten;
        this.sizeBytes += bytesWritten;
      }
    } catch (cause) {
      throw diskError(cause, 'writing the download', this.#path);
    }
  }

  /** The bytes that came, to be read before it is closed. */
  get bytes(): ZipBytes {
    return new FileWindow(this.#opened.fd, this.sizeBytes);
  }

  /** SHA-256 of the bytes that came, in hexadecimal digits. */
  get sha256(): string {
    return this.#hash.copy().digest('hex');
  }

  async close(isKept: boolean): Promise<void> {
    const file = this.#file;
    if (file === null) return;
    this.#file = null;
    try {
      await onDisk('writing the download', () => file.close());
    } finally {
      if (!isKept) await onDisk('removing the download', () => rm(this.#path, { force: true }));
    }
  }

  get #opened(): FileHandle {
    if (this.#file === null) throw new TypeError('the download was not begun');
    return this.#file;
  }
}

export interface DownloadOptions {
  readonly destination: Destination;
  /** Entity tag of what is there already: the service may say that it has not changed. */
  readonly knownTag: string | null;
  readonly what: 'archive' | 'file';
  /** Greatest size, after decoding. */
  readonly maxBytes: number;
  /** Receives the bytes that are there, and the bytes in all, null where the answer does not say. */
  readonly onArrived?: (doneBytes: number, totalBytes: number | null) => void;
  readonly limits: AnswerLimits;
  /** Null where it is not limited. */
  readonly bandwidth: Bandwidth | null;
  readonly signal: AbortSignal;
}

export interface Downloaded {
  readonly sizeBytes: number;
  /** Whether the service said before how many bytes there are: otherwise the answer may have ended early. */
  readonly isCounted: boolean;
  /** Of the answer that began it. */
  readonly headers: Answer['headers'];
  /** Null where no cache gave that answer. */
  readonly cached: Cached | null;
  /** Its first bytes, which tell its kind (`START_BYTES`), or all of it where it has fewer. */
  readonly start: Uint8Array;
}

/**
 * A download of one thing in as many tries as it takes: what is there when one breaks off is kept for the next. Nothing is made
 * before the first bytes come.
 */
export class Download implements Continuation {
  private readonly options: DownloadOptions;
  /** What the destination holds; null where that is of no use. */
  private part: Part | null = null;
  /** Of the answer that began it. */
  private first: Pick<Answer, 'headers' | 'cached'> = { headers: {}, cached: null };
  /** Its first bytes, see `START_BYTES`. */
  private start = Buffer.alloc(0);

  constructor(options: DownloadOptions) {
    this.options = options;
  }

  /** Whether nothing is asked for unless it has changed. */
  get isConditional(): boolean {
    return this.options.knownTag !== null && this.resumesAtBytes() === 0;
  }

  headers(): Readonly<Record<string, string>> {
    const { knownTag } = this.options;
    return knownTag !== null && this.isConditional ? { 'if-none-match': knownTag } : restHeaders(this.part);
  }

  resumesAtBytes(): number {
    return resumesAtBytes(this.part);
  }

  /** Whether an answer with this status is about what was asked for: the whole, a part, or word that there is no such part. */
  isAbout(status: number): boolean {
    return status === 200 || (this.resumesAtBytes() > 0 && (status === 206 || status === 416));
  }

  /**
   * Takes the body of such an answer.
   * @throws MirrorError `contents.interrupted` when another try may do better, `contents.too_large`, `disk.*`
   */
  async receive(answer: Answer): Promise<Downloaded> {
    const { destination } = this.options;
    const step = readStep(answer.status, answer.headers, this.part);
    if (step.kind === 'unfit') {
      this.part = null;
      throw interrupted(answer, `the service answered ${step.reason}`);
    }
    const { tag, totalBytes, endBytes } = step;
    if (step.kind === 'begins') await this.begin(answer);
    try {
      await this.takeBody(answer, totalBytes);
    } finally {
      this.part = { tag, totalBytes, sizeBytes: destination.sizeBytes };
    }
    const { sizeBytes } = destination;
    if (endBytes !== null && sizeBytes > endBytes) {
      this.part = null;
      throw interrupted(answer, 'more bytes came than the service said');
    }
    if (totalBytes !== null && sizeBytes < totalBytes)
      throw interrupted(answer, `${sizeBytes} of ${totalBytes} bytes came`);
    return { sizeBytes, isCounted: totalBytes !== null, start: this.start, ...this.first };
  }

  private async begin(answer: Answer): Promise<void> {
    this.part = null;
    if ((announcedBytes(answer.headers) ?? 0) > this.options.maxBytes) throw tooLarge(this.options, answer);
    await this.options.destination.begin();
    this.first = { headers: answer.headers, cached: answer.cached };
    this.start = Buffer.alloc(0);
  }

  private async takeBody(answer: Answer, totalBytes: number | null): Promise<void> {
    const { destination, bandwidth, limits, onArrived, signal } = this.options;
    try {
      for await (const piece of readBody(answer, limits, this.bounds(answer), destination.sizeBytes)) {
        const missingBytes = START_BYTES - this.start.length;
        if (missingBytes > 0) this.start = Buffer.concat([this.start, piece.subarray(0, missingBytes)]);
        const written = destination.write(piece);
        onArrived?.(destination.sizeBytes, totalBytes);
        if (written !== null) await written;
        if (bandwidth !== null) await bandwidth.take(piece.length, signal);
      }
    } catch (cause) {
      if (cause instanceof MirrorError) throw cause;
      throw interrupted(answer, cause instanceof Error ? cause.message : String(cause), cause);
    }
  }

  private bounds(answer: Answer): BodyBounds {
    return {
      maxBytes: this.options.maxBytes,
      leastBytes: LEAST_PROGRESS_BYTES,
      tooLarge: () => tooLarge(this.options, answer),
      tooSlow: (durationMs) => hardlyMoved(answer, durationMs),
    };
  }
}

function interrupted(answer: Answer, reason: string, cause?: unknown): MirrorError {
  const message = `The download of ${answer.url.pathname} broke off: ${reason}.`;
  return new MirrorError('contents.interrupted', message, { cause });
}

function hardlyMoved({ url }: Answer, durationMs: number): MirrorError {
  return new MirrorError(
    'contents.interrupted',
    `The download of ${url.pathname} hardly moved for ${formatDuration(durationMs)} and was broken off.`,
  );
}

function tooLarge({ what, maxBytes }: DownloadOptions, { url }: Answer): MirrorError {
  const size = formatSize(maxBytes);
  return new MirrorError(
    'contents.too_large',
    what === 'archive'
      ? `The archive of ${url.pathname} is greater than ${size}: setting archive.maxSize.`
      : `The file ${url.pathname} is greater than ${size}.`,
    {
      hint: `What is mirrored stays as it is until the contents change. If the ${what} is right, raise archive.maxSize.`,
    },
  );
}

/** Going on with a download where it broke off (RFC 9110, sections 13.1.5 and 14). All of it is plain decisions. */

/** The identity and length of the bytes of a download. */
export interface Origin {
  /** The strong entity tag by which the rest of the same bytes can be asked for; null where it cannot. */
  readonly tag: string | null;
  /** How many bytes there are in all; null where nobody said. */
  readonly totalBytes: number | null;
}

/** The part of a download that is on disk. */
export interface Part extends Origin {
  readonly sizeBytes: number;
}

/** An answer to the request for a download, or for the rest of it. */
export type Step =
  /**
   * The bytes from the first one on (`begins`), so that those on disk are not needed, or those that follow them (`continues`).
   * `endBytes`: how many there are then; null where that is not known.
   */
  | (Origin & { readonly kind: 'begins' | 'continues'; readonly endBytes: number | null })
  /** It is not what was asked for, and nothing of it may be used. */
  | { readonly kind: 'unfit'; readonly reason: string };

/** How many bytes there are in all, as the answer that begins them says; null where it does not. */
export function wholeBytes(headers: AnswerHeaders): number | null {
  return isCoded(headers) ? null : announcedBytes(headers);
}

/** Where the next question goes on, in bytes: 0 where it is for everything. */
export function resumesAtBytes(part: Part | null): number {
  return part?.tag === null || part === null ? 0 : part.sizeBytes;
}

/** The headers that ask for the rest of the same bytes, or for everything where they are no more the same. */
export function restHeaders(part: Part | null): Record<string, string> {
  const atBytes = resumesAtBytes(part);
  return atBytes === 0 || part === null || part.tag === null
    ? {}
    : { range: `bytes=${atBytes}-`, 'if-range': part.tag };
}

/**
 * Decides what an answer with status 200, 206 or 416 is.
 * @param part what is on disk; null where nothing was asked for but everything
 */
export function readStep(status: number, headers: AnswerHeaders, part: Part | null): Step {
  const atBytes = resumesAtBytes(part);
  if (status === 200) return beginning(headers, part);
  if (part === null || atBytes === 0) return unfit(`with status ${status} to a question for everything`);
  if (status === 416) return unfit(`that there is nothing from byte ${atBytes} on (status 416)`);
  if (isCoded(headers)) return unfit('with a part in a content coding');
  if (headers['content-type']?.trim().toLowerCase().startsWith('multipart/byteranges') === true)
    return unfit('with several parts where one was asked for');
  if (strongTag(headers['etag']) !== part.tag) return unfit('with a part of other bytes (ETag)');
  return restOf(headers, part, atBytes);
}

/** Reads Content-Range (RFC 9110, section 14.4). */
function restOf(headers: AnswerHeaders, part: Part, atBytes: number): Step {
  const text = headers['content-range'] ?? '';
  const match = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/i.exec(text.trim());
  const [first, last, totalBytes] = match === null ? [] : match.slice(1).map(Number);
  if (first === undefined || last === undefined || totalBytes === undefined)
    return unfit('with a part that does not say which (Content-Range)');
  const endBytes = last + 1;
  const isSameTotal = part.totalBytes === null || part.totalBytes === totalBytes;
  if (first !== atBytes || endBytes <= first || endBytes > totalBytes || !isSameTotal)
    return unfit(`with another part than asked for (Content-Range: ${text.trim()})`);
  const lengthBytes = announcedBytes(headers);
  if (lengthBytes !== null && lengthBytes !== endBytes - first)
    return unfit('with a part that has another length than it says (Content-Length)');
  return { kind: 'continues', tag: part.tag, totalBytes, endBytes };
}

function beginning(headers: AnswerHeaders, part: Part | null): Step {
  const tag = isCoded(headers) ? null : strongTag(headers['etag']);
  // A server that sends the same bytes from the beginning, although asked for the rest, does not know ranges.
  const isIgnored = resumesAtBytes(part) > 0 && tag === part?.tag;
  const isRefused = /(?:^|,)\s*none\s*(?:,|$)/i.test(headers['accept-ranges'] ?? '');
  const totalBytes = wholeBytes(headers);
  return { kind: 'begins', tag: isIgnored || isRefused ? null : tag, totalBytes, endBytes: totalBytes };
}

/** In a content coding, neither lengths nor places are those of the bytes on disk. */
function isCoded(headers: AnswerHeaders): boolean {
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  return coding !== '' && coding !== 'identity';
}

function unfit(reason: string): Step {
  return { kind: 'unfit', reason };
}
