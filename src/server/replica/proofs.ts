import { createHash } from 'node:crypto';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';

/** As many are remembered: about 50 MB. */
const MOST_PROOFS = 500_000;
/** Bytes of a digest that stand for file and digest: enough that no two meet. */
const KEY_BYTES = 16;

function keyOf(identity: string, sha256: string): string {
  const digest = createHash('sha256').update(`${identity} ${sha256}`).digest();
  return digest.toString('latin1', 0, KEY_BYTES);
}

/**
 * Remembers a number of texts; when there are more, any of them is forgotten. To forget the oldest would be to remember nothing where
 * slightly more are asked for one after the other, again and again.
 */
export function createSampledSet(
  most: number,
): Pick<Set<string>, 'has' | 'size'> & { add: (text: string) => void } {
  const texts = new Set<string>();
  const places: string[] = [];
  return {
    get size() {
      return texts.size;
    },
    has: (text) => texts.has(text),
    add(text) {
      if (texts.has(text)) return;
      const place = places.length < most ? places.length : Math.floor(Math.random() * most);
      const other = places[place];
      if (other !== undefined) texts.delete(other);
      places[place] = text;
      texts.add(text);
    },
  };
}

interface RunningProof {
  readonly done: Promise<void>;
  readonly stop: AbortController;
  waiting: number;
}

/**
 * The digests that files were found to have, by what changes with every change of a file. The time of change of the inode is one that
 * nobody can set (inode(7)).
 */
export type Proofs = ReturnType<typeof createProofs>;

/** Makes proofs that know nothing yet. */
export function createProofs() {
  const known = createSampledSet(MOST_PROOFS);
  const running = new Map<string, RunningProof>();

  function start(key: string, begin: (signal: AbortSignal) => Promise<void>): RunningProof {
    const stop = new AbortController();
    const proof: RunningProof = { done: begin(stop.signal), stop, waiting: 0 };
    running.set(key, proof);
    const end = (): void => {
      if (running.get(key) === proof) running.delete(key);
    };
    proof.done.then(end, end);
    return proof;
  }

  return {
    isKnown: (identity: string, sha256: string): boolean => known.has(keyOf(identity, sha256)),
    remember: (identity: string, sha256: string): void => known.add(keyOf(identity, sha256)),
    /**
     * Waits for a proof, which is run once for all who ask for it at the same time, and given up when none of them waits any longer.
     * @param begin begins it; settles when it has ended
     * @throws what the proof throws, and the reason of `signal`
     */
    async share(
      identity: string,
      sha256: string,
      signal: AbortSignal | undefined,
      begin: (signal: AbortSignal) => Promise<void>,
    ): Promise<void> {
      signal?.throwIfAborted();
      const key = keyOf(identity, sha256);
      const proof = running.get(key) ?? start(key, begin);
      proof.waiting += 1;
      try {
        await unlessAborted(proof.done, signal);
      } finally {
        proof.waiting -= 1;
        if (proof.waiting === 0) {
          // The next caller begins a new proof.
          if (running.get(key) === proof) running.delete(key);
          proof.stop.abort();
        }
      }
    },
  };
}
