import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Readable } from 'node:stream';

import { MirrorError } from '../../lib/errors/errors.ts';
import { formatDuration, formatSize } from '../../lib/text/units.ts';
import { STALLS_IN_ALL } from './answers.ts';
import { type Cached, type AnswerHeaders, announcedBytes, strongTag } from './headers.ts';
import type { Bandwidth, Continuation } from './pace.ts';
import type { Destination } from './destination.ts';
import type { Answer, AnswerLimits } from './transport.ts';

export interface DownloadOptions {
  readonly destination: Destination;
  /** Entity tag of what is there already: the service may say that it has not changed. */
  readonly knownTag: string | null;
  /** The bytes of a file are digested while they come. */
  readonly what: 'archive' | 'file';
  /** Greatest size, after decoding. */
  readonly maxBytes: number;
  /** Receives the bytes that are there, and the bytes in all, null where the answer does not say. */
  readonly onArrived: ((doneBytes: number, totalBytes: number | null) => void) | undefined;
  readonly limits: AnswerLimits;
  readonly bandwidth: Bandwidth;
  readonly signal: AbortSignal;
}

export interface Downloaded {
  readonly sizeBytes: number;
  /** Whether the service said before how many bytes there are: otherwise the answer may have ended early. */
  readonly isCounted: boolean;
  /** Headers of the answer that began it. */
  readonly headers: Answer['headers'];
  /** Null where no cache gave that answer. */
  readonly cached: Cached | null;
  /** SHA-256 in hexadecimal digits, and CRC-32; of an archive those of nothing. */
  readonly sha256: string;
  readonly crc32: number;
}

/**
 * A download of one thing in as many tries as it takes: what is there when one breaks off is kept for the next. Nothing is made
 * before the first bytes come.
 */
export class Download implements Continuation {
  private readonly options: DownloadOptions;
  /** What the destination holds; null where that is of no use. */
  private part: Part | null = null;
  /** Headers of the answer that began it. */
  private first: Pick<Answer, 'headers' | 'cached'> = { headers: {}, cached: null };
  /** The greatest part that there ever was. */
  private furthestBytes = 0;
  private furtherTries = 0;
  private hash = createHash('sha256');
  private checksum = 0;
  /** Whether the last try asked for nothing unless it has changed. */
  isConditional = false;

  constructor(options: DownloadOptions) {
    this.options = options;
  }

  headers(): Readonly<Record<string, string>> {
    const { knownTag } = this.options;
    this.isConditional = knownTag !== null && this.resumesAtBytes() === 0;
    return knownTag !== null && this.isConditional ? { 'if-none-match': knownTag } : restHeaders(this.part);
  }

  resumesAtBytes(): number {
    return resumesAtBytes(this.part);
  }

  gains(): number {
    return this.furtherTries;
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
    const isContinued = step.kind === 'continues';
    if (!isContinued) await this.begin(answer);
    try {
      await this.takeBody(answer, step.origin.totalBytes);
    } finally {
      this.note({ ...step.origin, sizeBytes: destination.sizeBytes }, isContinued);
    }
    const { sizeBytes } = destination;
    if (sizeBytes > (endOf(step) ?? sizeBytes)) {
      this.part = null;
      throw interrupted(answer, 'more bytes came than the service said');
    }
    const { totalBytes } = step.origin;
    if (totalBytes !== null && sizeBytes < totalBytes)
      throw interrupted(answer, `${sizeBytes} of ${totalBytes} bytes came`);
    return {
      sizeBytes,
      isCounted: totalBytes !== null,
      ...this.first,
      sha256: this.hash.copy().digest('hex'),
      crc32: this.checksum,
    };
  }

  private async begin(answer: Answer): Promise<void> {
    this.part = null;
    if ((announcedBytes(answer.headers) ?? 0) > this.options.maxBytes) throw tooLarge(this.options, answer);
    await this.options.destination.begin(wholeBytes(answer.headers));
    this.first = { headers: answer.headers, cached: answer.cached };
    this.hash = createHash('sha256');
    this.checksum = 0;
  }

  /**
   * Notes what a try came to, and whether it got further. One that began anew did not, nor one that brought hardly anything:
   * otherwise a service that breaks off again and again would keep us for ever.
   */
  private note(part: Part, isContinued: boolean): void {
    this.part = part;
    const mayGain = isContinued || this.furthestBytes === 0;
    if (mayGain && resumesAtBytes(part) >= this.furthestBytes + LEAST_PROGRESS_BYTES) this.furtherTries += 1;
    this.furthestBytes = Math.max(this.furthestBytes, part.sizeBytes);
  }

  private async takeBody(answer: Answer, totalBytes: number | null): Promise<void> {
    const { destination, what, maxBytes, limits, bandwidth, onArrived, signal } = this.options;
    const meter = watchBody(
      answer.body,
      {
        maxBytes,
        stallTimeoutMs: limits.stallTimeoutMs,
        onProgress: limits.onProgress,
        tooLarge: () => tooLarge(this.options, answer),
        tooSlow: (durationMs) => hardlyMoved(answer, durationMs),
      },
      destination.sizeBytes,
    );
    try {
      const pieces: AsyncIterable<unknown> = answer.body;
      for await (const piece of pieces) {
        if (!(piece instanceof Uint8Array)) continue;
        meter.came(piece.length);
        if (what === 'file') this.digest(piece);
        const written = destination.write(piece);
        onArrived?.(destination.sizeBytes, totalBytes);
        if (written !== null) await meter.excuse(written);
        answer.giveBack(piece);
        if (bandwidth.isLimited) await meter.excuse(bandwidth.take(piece.length, signal));
      }
    } catch (cause) {
      if (cause instanceof MirrorError) throw cause;
      throw interrupted(answer, cause instanceof Error ? cause.message : String(cause), cause);
    } finally {
      meter.stop();
    }
  }

  private digest(piece: Uint8Array): void {
    this.hash.update(piece);
    this.checksum = crc32(piece, this.checksum);
  }
}

/** How many bytes there may be after a step; null where nobody said. */
function endOf(step: Exclude<Step, { kind: 'unfit' }>): number | null {
  return step.kind === 'continues' ? step.endBytes : step.origin.totalBytes;
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

/**
 * The share of such a period in which the receiver was not ready to take bytes, from which on a download's speed is not judged:
 * the little time that is left may be no more than the delay of timers.
 */
const UNJUDGED_SHARE = 0.9;

/**
 * The bytes that a download must bring in each period of `STALLS_IN_ALL` stall timeouts, about a hundred bytes a second with the
 * default settings, and the bytes that a try must bring to count as one that got further.
 */
const LEAST_PROGRESS_BYTES = 64 * 1024;

export interface BodyBounds {
  /** Most bytes, after decoding. */
  readonly maxBytes: number;
  readonly stallTimeoutMs: number;
  /** Called whenever bytes come. */
  readonly onProgress?: (() => void) | undefined;
  readonly tooLarge: () => MirrorError;
  readonly tooSlow: (durationMs: number) => MirrorError;
}

/** Watches a download while it comes. */
interface Meter {
  /** To be called with the number of bytes that came. @throws MirrorError as the bounds say, when they are too many */
  readonly came: (moreBytes: number) => void;
  /** Waits for something of our own, such as a slow disk: the service is not to blame for that time. */
  readonly excuse: (wait: Promise<unknown>) => Promise<void>;
  readonly stop: () => void;
}

/**
 * Watches a body that is downloaded: one that is too great or hardly moves is stopped. What it must bring shrinks with the time in
 * which nobody was ready to take it, and is nothing where that was nearly all of it.
 * @param beforeBytes what came in the tries before, which counts for the greatest size
 */
export function watchBody(body: Readable, bounds: BodyBounds, beforeBytes = 0): Meter {
  const periodMs = bounds.stallTimeoutMs * STALLS_IN_ALL;
  let sizeBytes = beforeBytes;
  let sizeAtStartBytes = beforeBytes;
  let excusedMs = 0;
  let excusedSinceMs: number | null = null;
  const settle = (nowMs: number): void => {
    if (excusedSinceMs === null) return;
    excusedMs += nowMs - excusedSinceMs;
    excusedSinceMs = nowMs;
  };
  const timer = setInterval(() => {
    settle(performance.now());
    const excusedShare = excusedMs / periodMs;
    const leastBytes = excusedShare >= UNJUDGED_SHARE ? 0 : LEAST_PROGRESS_BYTES * (1 - excusedShare);
    if (sizeBytes - sizeAtStartBytes < leastBytes) body.destroy(bounds.tooSlow(periodMs));
    sizeAtStartBytes = sizeBytes;
    excusedMs = 0;
  }, periodMs);
  return {
    came: (moreBytes) => {
      bounds.onProgress?.();
      sizeBytes += moreBytes;
      if (sizeBytes > bounds.maxBytes) throw bounds.tooLarge();
    },
    excuse: async (wait) => {
      excusedSinceMs = performance.now();
      try {
        await wait;
      } finally {
        settle(performance.now());
        excusedSinceMs = null;
      }
    },
    stop: () => clearInterval(timer),
  };
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
  /** The bytes from the first one on: those on disk are not needed. */
  | { readonly kind: 'begins'; readonly origin: Origin }
  /** The bytes that follow those on disk. `endBytes`: how many there are then. */
  | { readonly kind: 'continues'; readonly origin: Origin; readonly endBytes: number }
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
  if (status === 200) return { kind: 'begins', origin: originOf(headers, part) };
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
  return { kind: 'continues', origin: { tag: part.tag, totalBytes }, endBytes };
}

function originOf(headers: AnswerHeaders, part: Part | null): Origin {
  const tag = isCoded(headers) ? null : strongTag(headers['etag']);
  // A server that sends the same bytes from the beginning, although asked for the rest, does not know ranges.
  const isIgnored = resumesAtBytes(part) > 0 && tag === part?.tag;
  const isRefused = /(?:^|,)\s*none\s*(?:,|$)/i.test(headers['accept-ranges'] ?? '');
  return { tag: isIgnored || isRefused ? null : tag, totalBytes: wholeBytes(headers) };
}

/** In a content coding, neither lengths nor places are those of the bytes on disk. */
function isCoded(headers: AnswerHeaders): boolean {
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  return coding !== '' && coding !== 'identity';
}

function unfit(reason: string): Step {
  return { kind: 'unfit', reason };
}
