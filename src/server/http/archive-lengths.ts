import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { countBytes } from './conditions.ts';
import type { Bytes, Content } from './library.ts';

/** An archive, as the library gives it. */
export type Archive = Extract<Content, { kind: 'archive' }>;

/**
 * The lengths of archives. A length is unknown until the last byte is made, and a part can only be sent with it (RFC 9110, section
 * 14.4).
 */
export interface ArchiveLengths {
  /** Gives the bytes of an archive, and notes how many they were. */
  readonly watched: (archive: Archive, signal: AbortSignal) => Bytes;
  /**
   * How many bytes an archive has; null where to find out would take too long. An archive that nobody has read to its end yet is made
   * for it once, for all who ask meanwhile.
   */
  readonly find: (archive: Archive, signal: AbortSignal | undefined) => Promise<number | null>;
}

/** A client waits for a length for so long; then it gets the whole, which comes at once. */
const FINDING_MS = 20_000;
/** For so long nobody waits for a length that took too long to find: the machine may have been busy with something else. */
const TOO_LONG_MS = 3_600_000;
const REMEMBERED = 10_000;

/** An archive that is made for its length. */
interface Count {
  readonly sizeBytes: Promise<number | null>;
  readonly stop: AbortController;
  waiting: number;
}

/**
 * Makes the memory of lengths. What a tag stands for never changes, so that no length grows old.
 * @param findingMs how long making an archive may take, where only its length is asked for
 */
export function createArchiveLengths(findingMs = FINDING_MS): ArchiveLengths {
  const known = new Map<string, number>();
  /** Until when nobody waits for the length of an archive, by the clock of `performance`. */
  const tooLongUntilMs = new Map<string, number>();
  const counts = new Map<string, Count>();

  async function count({ etag, open }: Archive, stopped: AbortSignal): Promise<number | null> {
    const limit = AbortSignal.timeout(findingMs);
    try {
      const sizeBytes = await countBytes(open(AbortSignal.any([stopped, limit])));
      remember(known, etag, sizeBytes);
      return sizeBytes;
    } catch (error) {
      // Callers that joined late waited for less time; all of them get the whole archive now.
      if (!limit.aborted || stopped.aborted) throw error;
      remember(tooLongUntilMs, etag, performance.now() + TOO_LONG_MS);
      return null;
    }
  }

  function start(archive: Archive): Count {
    const stop = new AbortController();
    const begun: Count = { sizeBytes: count(archive, stop.signal), stop, waiting: 0 };
    counts.set(archive.etag, begun);
    const end = (): void => drop(archive.etag, begun);
    begun.sizeBytes.then(end, end);
    return begun;
  }

  function drop(etag: string, begun: Count): void {
    if (counts.get(etag) === begun) counts.delete(etag);
  }

  return {
    watched: async function* watched({ etag, open }, signal) {
      let sizeBytes = 0;
      for await (const chunk of open(signal)) {
        sizeBytes += chunk.length;
        yield chunk;
      }
      remember(known, etag, sizeBytes);
    },
    find: async (archive, signal) => {
      const { etag } = archive;
      const sizeBytes = known.get(etag);
      if (sizeBytes !== undefined) return sizeBytes;
      if (performance.now() < (tooLongUntilMs.get(etag) ?? 0)) return null;
      signal?.throwIfAborted();
      const shared = counts.get(etag) ?? start(archive);
      shared.waiting += 1;
      try {
        return await unlessAborted(shared.sizeBytes, signal);
      } finally {
        shared.waiting -= 1;
        if (shared.waiting === 0) {
          // A client that comes now begins anew.
          drop(etag, shared);
          shared.stop.abort();
        }
      }
    },
  };
}

/** Notes something of a tag; what was noted first goes when there is too much. */
function remember(notes: Map<string, number>, etag: string, value: number): void {
  notes.delete(etag);
  notes.set(etag, value);
  const [oldest] = notes.keys();
  if (notes.size > REMEMBERED && oldest !== undefined) notes.delete(oldest);
}
