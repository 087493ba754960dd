import { describe, it, onTestFinished } from 'vitest';

import type { Fault, FakeKnobs } from '../../../support/fake-service.ts';
import { type Endpoint, SickPair } from '../../../support/sick-service.ts';
import { type AttackPoint, sweep } from '../../../support/sweep.ts';

const LANES = 2;

/** All points take minutes. */
const TIMEOUT_MS = process.env['ATTACK'] === 'all' ? 3_600_000 : 120_000;

/** How many points of each sweep are tried unless all are wanted (`ATTACK=all`). */
const SAMPLE = 60;

/** An answer may vary by some bytes from round to round: compressed texts do. */
const SPARE_BYTES = 4;

const CUTS: Readonly<Record<string, (at: number) => Fault>> = {
  ends: (after) => ({ kind: 'cut', after }),
  'is reset': (after) => ({ kind: 'cut', after, reset: true }),
  'is whole by its length': (keep) => ({ kind: 'truncate', keep }),
};

async function lanesOf(knobs: Partial<FakeKnobs>): Promise<SickPair[]> {
  const pairs = await Promise.all(Array.from({ length: LANES }, () => SickPair.open(knobs)));
  onTestFinished(async () => void (await Promise.all(pairs.map((pair) => pair.close()))));
  return pairs;
}

/** A point for every byte of an answer. */
async function pointsOf(
  pairs: readonly SickPair[],
  endpoint: Endpoint,
  stratum: string,
  faultAt: (at: number) => Fault,
): Promise<AttackPoint[]> {
  const [first] = pairs;
  const length = (await first?.lengthOf(endpoint)) ?? 0;
  return Array.from({ length: length + SPARE_BYTES }, (_, at) => ({
    id: `${endpoint} ${stratum} ${at}`,
    stratum: `${endpoint} ${stratum}`,
    attack: async (lane: number) => {
      const pair = pairs[lane];
      if (pair === undefined) throw new Error('there is no such lane');
      return pair.attack(endpoint, faultAt(at));
    },
  }));
}

describe('an answer cut at any byte changes nothing, and the next pass corrects that', () => {
  it.each(['content-length', 'chunked'] as const)(
    '(%s)',
    async (length) => {
      const pairs = await lanesOf({ length });
      const points: AttackPoint[] = [];
      for (const endpoint of ['repos', 'workbooks', 'second-page', 'contents'] as const) {
        for (const [how, faultAt] of Object.entries(CUTS)) {
          points.push(...(await pointsOf(pairs, endpoint, how, faultAt)));
        }
      }
      await sweep(`answers cut (${length})`, points, SAMPLE, LANES);
    },
    TIMEOUT_MS,
  );
});
