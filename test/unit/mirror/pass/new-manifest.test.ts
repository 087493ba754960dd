import { expect, it } from 'vitest';

import { changesSince, rowsAbout } from '../../../../src/mirror/pass/new-manifest.ts';
import { manifestFile, manifestWith, row } from '../../../support/builders.ts';

it.each([
  { contents: 'from the service', asOfMs: null, published: 'other', areMeant: true },
  { contents: 'newer than the list', asOfMs: 200, published: 'other', areMeant: true },
  { contents: 'older than the list', asOfMs: 50, published: 'other', areMeant: false },
  { contents: 'older than the list', asOfMs: 50, published: 'same', areMeant: true },
  { contents: 'older than the list', asOfMs: 50, published: 'same, with other versions', areMeant: false },
])('the list describes contents $contents if the published tree is $published: $areMeant', (of) => {
  const files = [manifestFile('a.xlsx')];
  const previous = manifestWith({
    files: of.published === 'other' ? [manifestFile('b.xlsx')] : files,
    fingerprint: of.published === 'same' ? 'listed' : 'before',
  });
  const rows = [row()];
  const pull = { action: { fingerprint: 'listed' }, rows, listedAtMs: 100 };
  const cached = of.asOfMs === null ? null : { asOfMs: of.asOfMs, via: null };
  expect(rowsAbout(pull, { cached }, changesSince(previous, files))).toBe(of.areMeant ? rows : null);
});
