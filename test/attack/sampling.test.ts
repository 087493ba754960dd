import { describe, expect, it } from 'vitest';

import { sampleOf } from '../support/sweep.ts';

const points = ['many', 'few'].flatMap((stratum) =>
  Array.from({ length: stratum === 'many' ? 1000 : 3 }, (_, number) => ({ stratum, number })),
);

const countOf = (sample: readonly { stratum: string }[], stratum: string): number =>
  sample.filter((point) => point.stratum === stratum).length;

describe('the sample of a sweep', () => {
  it('is the same for the same seed, and another one for another', () => {
    expect(sampleOf(points, 20, 1)).toEqual(sampleOf(points, 20, 1));
    expect(sampleOf(points, 20, 1)).not.toEqual(sampleOf(points, 20, 2));
  });

  it('takes from every stratum alike, for as long as it has any', () => {
    const sample = sampleOf(points, 20, 7);
    expect(countOf(sample, 'few')).toBe(3);
    expect(countOf(sample, 'many')).toBe(17);
    expect(countOf(sampleOf(points, 4, 7), 'few')).toBe(2);
  });

  it('takes no point twice, and all when there are fewer than asked for', () => {
    const all = sampleOf(points, 5000, 3);
    expect(new Set(all).size).toBe(points.length);
  });
});
