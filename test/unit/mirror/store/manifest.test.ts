import { isDeepStrictEqual } from 'node:util';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { type Manifest, sameManifest } from '../../../../src/mirror/store/manifest.ts';
import { formatManifest } from '../../../../src/mirror/store/manifest-text.ts';
import { manifests } from '../../../support/manifests.ts';

const same = (manifest: Manifest): Manifest => structuredClone(manifest);

function textOf(manifest: Manifest): string {
  return [...formatManifest(manifest)].join('');
}

describe('sameManifest', () => {
  it('finds a manifest the same as its copy', () => {
    fc.assert(
      fc.property(manifests(), (manifest) => {
        expect(sameManifest(manifest, same(manifest))).toBe(true);
      }),
    );
  });

  it('tells two manifests apart exactly where their texts differ', () => {
    const keys = ['branch', 'etag', 'repository', 'skipped', 'settled', 'files', 'restoredAtMs'] as const;
    const pair = fc
      .tuple(manifests(), manifests(), fc.subarray([...keys], { maxLength: 2 }))
      .map(([manifest, other, taken]): readonly [Manifest, Manifest] => {
        const facts = Object.fromEntries(taken.map((key) => [key, other[key]]));
        return [manifest, Object.assign(same(manifest), facts)];
      });
    fc.assert(
      fc.property(pair, ([a, b]) => {
        expect(sameManifest(a, b)).toBe(textOf(a) === textOf(b));
        expect(sameManifest(b, a)).toBe(sameManifest(a, b));
        expect(sameManifest(a, b)).toBe(isDeepStrictEqual(a, b));
      }),
    );
  });

  it('sees every single fact of a file', () => {
    fc.assert(
      fc.property(
        manifests().filter(({ files }) => files.length > 0),
        fc.nat(),
        (manifest, choice) => {
          const index = choice % manifest.files.length;
          for (const key of Object.keys(manifest.files[index] ?? {})) {
            const files = manifest.files.map((file, at) =>
              at === index ? { ...file, [key]: 'other' } : file,
            );
            expect(sameManifest(manifest, { ...manifest, files })).toBe(false);
            const fewer = manifest.files.map((file, at) =>
              at === index ? { ...file, [key]: undefined } : file,
            );
            expect(sameManifest(manifest, { ...manifest, files: fewer })).toBe(false);
          }
        },
      ),
    );
  });

  it('takes what is undefined for what is left out, as a text does', () => {
    fc.assert(
      fc.property(manifests(), (manifest) => {
        const { createdAt, ...repository } = manifest.repository;
        const spelled = { ...manifest, repository: { ...repository, createdAt: undefined } };
        expect(sameManifest({ ...manifest, repository }, spelled as unknown as Manifest)).toBe(true);
        expect(sameManifest(spelled as unknown as Manifest, manifest)).toBe(createdAt === undefined);
      }),
    );
  });
});
