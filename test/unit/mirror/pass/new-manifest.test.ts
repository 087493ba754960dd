import { expect, it } from 'vitest';

import { changesSince, rowsAbout } from '../../../../src/mirror/pass/new-manifest.ts';
import { groupRows } from '../../../../src/mirror/plan/workbooks.ts';
import { manifestFile, manifestWith, row } from '../../../support/builders.ts';

it('a list does not describe older contents, unless they were published with its versions', () => {
  const [rows, files] = [groupRows([row()]), [manifestFile('a.xlsx')]];
  const about = (asOfMs: number, fingerprint: string, published = files): unknown => {
    const changes = changesSince(manifestWith({ files: published, fingerprint }), files);
    const pull = { action: { fingerprint: 'listed' }, rows, listedAtMs: 100 };
    return rowsAbout(pull, { cached: { asOfMs, via: null } }, changes);
  };
  for (const described of [about(200, 'before'), about(50, 'listed')]) expect(described).toBe(rows);
  for (const older of [about(50, 'before'), about(50, 'listed', [])]) expect(older).toBeNull();
});
