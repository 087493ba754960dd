/** A source of plausible numbers: the same ones for the same seed. */
export interface Figures {
  /** An amount of money with cents, evenly spread between two limits. */
  readonly amount: (low: number, high: number) => number;
  /** A rate with four decimals, evenly spread between two limits. */
  readonly rate: (low: number, high: number) => number;
  /** A whole number from zero up to and without the limit. */
  readonly below: (limit: number) => number;
}

/** Makes a source of numbers from a seed (the generator "mulberry32"). */
export function createFigures(seed: number): Figures {
  let state = Math.trunc(seed) | 0;
  /** The next number from 0 up to and without 1. */
  function next(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  return {
    amount: (low, high) => Math.round((low + next() * (high - low)) * 100) / 100,
    rate: (low, high) => Math.round((low + next() * (high - low)) * 10_000) / 10_000,
    below: (limit) => Math.floor(next() * limit),
  };
}
