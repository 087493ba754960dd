import { type Readable, Transform } from 'node:stream';

import type { MirrorError } from '../model/errors.ts';

/**
 * How slowly a body may come. `stallTimeoutMs` alone lets one byte at a time keep a pass busy for ever; so JSON has this
 * many times that in all, and a download must bring some bytes in every such time: an archive of gigabytes over a slow
 * line is all right, however long it takes.
 */
const STALLS_IN_ALL = 10;

/** What a download must bring in the time above: with the default settings about a hundred bytes a second. */
const LEAST_PROGRESS_BYTES = 64 * 1024;

/** What bounds the reading of a body. */
export interface BodyBounds {
  /** Most bytes, after decoding. */
  readonly maxBytes: number;
  readonly stallTimeoutMs: number;
  /** Called whenever bytes come. */
  readonly onProgress?: (() => void) | undefined;
  readonly tooLarge: () => MirrorError;
  readonly tooSlow: (durationMs: number) => MirrorError;
}

/** Reads a whole body of JSON. @throws MirrorError as the bounds say; what broke the body off */
export async function readBounded(body: Readable, bounds: BodyBounds): Promise<Buffer> {
  const deadlineMs = bounds.stallTimeoutMs * STALLS_IN_ALL;
  const timer = setTimeout(() => body.destroy(bounds.tooSlow(deadlineMs)), deadlineMs);
  try {
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    const pieces: AsyncIterable<unknown> = body;
    for await (const chunk of pieces) {
      if (!(chunk instanceof Uint8Array)) continue;
      bounds.onProgress?.();
      sizeBytes += chunk.length;
      if (sizeBytes > bounds.maxBytes) throw bounds.tooLarge();
      chunks.push(chunk);
    }
    return Buffer.concat(chunks, sizeBytes);
  } finally {
    clearTimeout(timer);
  }
}

/** What a download is led through: it stops what is too great, and what hardly moves. */
export function createMeter(bounds: BodyBounds): Transform {
  const periodMs = bounds.stallTimeoutMs * STALLS_IN_ALL;
  let sizeBytes = 0;
  let sizeBeforeBytes = 0;
  const timer = setInterval(() => {
    if (sizeBytes - sizeBeforeBytes < LEAST_PROGRESS_BYTES) meter.destroy(bounds.tooSlow(periodMs));
    sizeBeforeBytes = sizeBytes;
  }, periodMs);
  const meter = new Transform({
    transform: (chunk: Uint8Array, _encoding, done) => {
      bounds.onProgress?.();
      sizeBytes += chunk.length;
      if (sizeBytes > bounds.maxBytes) done(bounds.tooLarge());
      else done(null, chunk);
    },
    destroy: (error, done) => {
      clearInterval(timer);
      done(error);
    },
  });
  return meter;
}

/** The length that an answer says its body has, before decoding; null where it says none. */
export function announcedBytes(headers: Readonly<Record<string, string | undefined>>): number | null {
  const text = headers['content-length'];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}
