import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

import { MirrorError } from '../../lib/errors/errors.ts';
import { formatDuration, formatSize } from '../../lib/text/units.ts';
import type { Cached } from './cached.ts';
import type { Bandwidth } from './bandwidth.ts';
import { LEAST_PROGRESS_BYTES, watchBody } from './body.ts';
import type { Destination } from './destination.ts';
import {
  announcedBytes,
  type Part,
  readStep,
  restHeaders,
  resumesAtBytes,
  type Step,
  wholeBytes,
} from './resume.ts';
import type { Continuation } from './retries.ts';
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
