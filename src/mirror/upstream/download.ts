import { createHash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { crc32 } from 'node:zlib';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { formatDuration, formatSize } from '../../lib/text/units.ts';
import { type Answer, type BodyBounds, readBody, strongTag, type Cached } from './answers.ts';
import { announcedBytes, type AnswerHeaders } from './connections.ts';
import { type Continuation, LEAST_PROGRESS_BYTES, waitFor } from './transport.ts';
import { START_BYTES } from '../../lib/zip/whole-file.ts';

/** The destination of a download, written piece by piece. It creates nothing before the download begins. */
export interface Destination {
  /** How many bytes it holds. */
  readonly sizeBytes: number;
  /** Creates it, or empties it. @throws MirrorError `disk.*` */
  readonly begin: () => Promise<void>;
  /** Appends a whole piece. The next call comes after this one has ended. @throws MirrorError `disk.*` */
  readonly write: (piece: Uint8Array) => Promise<void>;
  /** Ends the writing. @param isKept whether it stays */
  readonly close: (isKept: boolean) => Promise<void>;
}

/** A file that a download is written to, and digested on the way; an existing one is removed. */
export class FileDestination implements Destination {
  sizeBytes = 0;
  /** The digest of the bytes so far. */
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
      this.#file = await open(this.#path, 'ax+');
    });
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#hash.update(piece);
    this.crc32 = crc32(piece, this.crc32);
    await onDisk('writing the download', () => this.#opened.appendFile(piece));
    this.sizeBytes += piece.length;
  }

  /** Reads a part of the download before it is closed. @throws RangeError if the download is shorter; Error of the disk */
  async read(position: number, lengthBytes: number): Promise<Buffer> {
    const bytes = Buffer.alloc(lengthBytes);
    const { bytesRead } = await this.#opened.read(bytes, 0, lengthBytes, position);
    if (bytesRead < lengthBytes) throw new RangeError('the download is not as long as that');
    return bytes;
  }

  /** SHA-256 of the download, in hexadecimal digits. */
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

/** A download: its destination, and its observers. */
export interface DownloadRequest {
  readonly destination: Destination;
  /** Entity tag of the present contents: the service may say that it has not changed (RFC 9110, section 13.1.2). */
  readonly etag: string | null;
  /** Receives the bytes so far, and the total; null if the answer does not give it. */
  readonly onArrived?: (doneBytes: number, totalBytes: number | null) => void;
  readonly signal: AbortSignal;
}

export interface DownloadOptions extends DownloadRequest {
  readonly what: 'archive' | 'file';
  /** Greatest size, after decoding. */
  readonly maxBytes: number;
  /** Null if it is not limited. */
  readonly bandwidth: Bandwidth | null;
}

export interface Downloaded {
  readonly sizeBytes: number;
  /** Whether the service announced the length: otherwise the answer may have ended early. */
  readonly isCounted: boolean;
  /** Whether it is made of the parts of several answers. */
  readonly isJoined: boolean;
  /** The headers of the first answer. */
  readonly headers: AnswerHeaders;
  /** Null if no cache gave that answer. */
  readonly cached: Cached | null;
  /** Its first bytes, which show its kind (`START_BYTES`), or all of it if it is shorter. */
  readonly start: Uint8Array;
}

/** The part of a download that is on disk, to which the rest can be requested (RFC 9110, sections 13.1.5 and 14). */
export interface Part {
  /** The strong entity tag of all the bytes. */
  readonly tag: string;
  readonly sizeBytes: number;
  /** The total bytes; null if the service did not say. */
  readonly totalBytes: number | null;
}

/**
 * A download in as many tries as it takes: if one breaks off, its bytes are kept for the next. Nothing is made
 * before the first bytes arrive.
 */
export class Download implements Continuation {
  readonly #options: DownloadOptions;
  #part: Part | null = null;
  /** The headers of the first answer. */
  #first: Pick<Answer, 'headers' | 'cached'> = { headers: {}, cached: null };
  /** Its first bytes, see `START_BYTES`. */
  #start = Buffer.alloc(0);

  constructor(options: DownloadOptions) {
    this.#options = options;
  }

  /** Whether the request is conditional. */
  get isConditional(): boolean {
    return this.#options.etag !== null && this.#part === null;
  }

  headers(): Readonly<Record<string, string>> {
    const { etag } = this.#options;
    if (this.#part !== null) return { range: `bytes=${this.#part.sizeBytes}-`, 'if-range': this.#part.tag };
    return etag === null ? {} : { 'if-none-match': etag };
  }

  resumesAtBytes(): number {
    return this.#part?.sizeBytes ?? 0;
  }

  /** Whether an answer with this status is about the requested thing: the whole, a part, or word that there is no such part. */
  isAbout(status: number): boolean {
    return status === 200 || (this.#part !== null && (status === 206 || status === 416));
  }

  /**
   * Takes the body of such an answer.
   * @throws MirrorError `contents.interrupted` if another try may succeed, `contents.too_large`, `disk.*`
   */
  async receive(answer: Answer): Promise<Downloaded> {
    const { destination } = this.#options;
    const { status, headers } = answer;
    const part = status === 200 ? null : this.#part;
    this.#part = null;
    if (status !== 200 && (part === null || !isRest(status, headers, part)))
      throw interrupted(answer, `the service answered with another part than asked for (status ${status})`);
    const tag = part === null ? wholeTag(headers) : part.tag;
    const totalBytes = part === null ? wholeBytes(headers) : totalOf(headers);
    if (part === null) await this.#begin(answer);
    try {
      await this.#takeBody(answer, totalBytes);
    } finally {
      const { sizeBytes } = destination;
      this.#part = tag === null || sizeBytes === 0 ? null : { tag, sizeBytes, totalBytes };
    }
    const { sizeBytes } = destination;
    if (totalBytes !== null && sizeBytes > totalBytes) this.#part = null;
    if (totalBytes !== null && sizeBytes !== totalBytes)
      throw interrupted(answer, `${sizeBytes} of ${totalBytes} bytes came`);
    const isCounted = totalBytes !== null;
    return { sizeBytes, isCounted, isJoined: part !== null, start: this.#start, ...this.#first };
  }

  async #begin(answer: Answer): Promise<void> {
    if ((announcedBytes(answer.headers) ?? 0) > this.#options.maxBytes) throw tooLarge(this.#options, answer);
    await this.#options.destination.begin();
    this.#first = { headers: answer.headers, cached: answer.cached };
    this.#start = Buffer.alloc(0);
  }

  async #takeBody(answer: Answer, totalBytes: number | null): Promise<void> {
    const { destination, bandwidth, onArrived, signal } = this.#options;
    const bounds: BodyBounds = {
      maxBytes: this.#options.maxBytes,
      leastBytes: LEAST_PROGRESS_BYTES,
      tooLarge: () => tooLarge(this.#options, answer),
      tooSlow: (durationMs) =>
        interrupted(answer, `almost nothing arrived for ${formatDuration(durationMs)}`),
    };
    try {
      for await (const piece of readBody(answer, bounds, destination.sizeBytes)) {
        const missingBytes = START_BYTES - this.#start.length;
        if (missingBytes > 0) this.#start = Buffer.concat([this.#start, piece.subarray(0, missingBytes)]);
        await destination.write(piece);
        onArrived?.(destination.sizeBytes, totalBytes);
        if (bandwidth !== null) await bandwidth.take(piece.length, signal);
      }
    } catch (cause) {
      if (cause instanceof MirrorError) throw cause;
      throw interrupted(answer, cause instanceof Error ? cause.message : String(cause), cause);
    }
  }
}

function interrupted(answer: Answer, reason: string, cause?: unknown): MirrorError {
  const message = `The download of ${answer.url.pathname} broke off: ${reason}.`;
  return new MirrorError('contents.interrupted', message, { cause });
}

function tooLarge({ what, maxBytes }: DownloadOptions, { url }: Answer): MirrorError {
  const size = formatSize(maxBytes);
  return new MirrorError(
    'contents.too_large',
    what === 'archive'
      ? `The archive of ${url.pathname} is greater than ${size}: setting archive.maxSize.`
      : `The file ${url.pathname} is greater than ${size}.`,
    {
      hint: `The published tree stays as it is until the contents change. If the ${what} is right, raise archive.maxSize.`,
    },
  );
}

/** The tag for requesting the rest of the bytes that an answer begins; null if that is impossible. */
function wholeTag(headers: AnswerHeaders): string | null {
  return isCoded(headers) ? null : strongTag(headers['etag']);
}

/** The total bytes, from the answer that begins them; null if it does not say. */
export function wholeBytes(headers: AnswerHeaders): number | null {
  return isCoded(headers) ? null : announcedBytes(headers);
}

/** The total bytes, from Content-Range (RFC 9110, section 14.4); null if it does not say. */
function totalOf(headers: AnswerHeaders): number | null {
  const total = /^bytes \d+-\d+\/(\d{1,15})$/i.exec(headers['content-range']?.trim() ?? '')?.[1];
  return total === undefined ? null : Number(total);
}

/** Whether an answer has exactly the bytes that follow a part of the same bytes. */
export function isRest(status: number, headers: AnswerHeaders, part: Part): boolean {
  const totalBytes = totalOf(headers);
  const isOfSame = strongTag(headers['etag']) === part.tag && !isCoded(headers) && !isMultipart(headers);
  if (status !== 206 || totalBytes === null || !isOfSame) return false;
  const restBytes = totalBytes - part.sizeBytes;
  const range = `bytes ${part.sizeBytes}-${totalBytes - 1}/${totalBytes}`;
  return (
    restBytes > 0 &&
    headers['content-range']?.trim().toLowerCase() === range &&
    (announcedBytes(headers) ?? restBytes) === restBytes &&
    (part.totalBytes ?? totalBytes) === totalBytes
  );
}

/** Several parts have lines between them (RFC 9110, section 14.6). */
function isMultipart(headers: AnswerHeaders): boolean {
  return headers['content-type']?.trim().toLowerCase().startsWith('multipart/') === true;
}

/** In a content coding, lengths and offsets differ from the bytes on disk. */
function isCoded(headers: AnswerHeaders): boolean {
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  return coding !== '' && coding !== 'identity';
}

/** How much unused bandwidth may accumulate while no bytes arrive, as time. */
const BURST_MS = 250;

/**
 * When received bytes are within a limit. Times in milliseconds, on one clock.
 * @param freeAtMs when all bytes before them are within the limit
 */
export function withinLimitAtMs(
  freeAtMs: number,
  bytesPerSecond: number,
  sizeBytes: number,
  nowMs: number,
): number {
  return Math.max(freeAtMs, nowMs - BURST_MS) + (sizeBytes * 1000) / bytesPerSecond;
}

/**
 * The bandwidth limit of all downloads together. They ask in turn, each for a piece of the same greatest size, so that they get
 * equal shares.
 */
export class Bandwidth {
  readonly #bytesPerSecond: number;
  #freeAtMs = 0;

  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /**
   * Waits until received bytes are within the limit.
   * @throws MirrorError `pass.abandoned` if `signal` fires
   */
  async take(sizeBytes: number, signal: AbortSignal): Promise<void> {
    const nowMs = performance.now();
    this.#freeAtMs = withinLimitAtMs(this.#freeAtMs, this.#bytesPerSecond, sizeBytes, nowMs);
    const delayMs = this.#freeAtMs - nowMs;
    if (delayMs > 0 || signal.aborted) await waitFor(Math.ceil(delayMs), signal);
  }
}
