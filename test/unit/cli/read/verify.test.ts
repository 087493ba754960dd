import { describe, expect, it } from 'vitest';

import { describeRepair, describeVerification } from '../../../../src/cli/read/verify.ts';
import type { VerifiedTarget, VerifyReport } from '../../../../src/mirror/store/verify/verify.ts';

const SIZE = { files: 3, sizeBytes: 3000 };
const OK: VerifiedTarget = { path: 'Accounting/main', state: 'ok', differences: [], ...SIZE };
const DIFFERS: VerifiedTarget = {
  ...OK,
  path: 'Planning/main',
  state: 'differs',
  differences: [
    { path: 'a', kind: 'added', entry: 'file' },
    { path: 'b', kind: 'added', entry: 'link' },
    { path: 'c', kind: 'missing' },
    { path: 'd', kind: 'modified', what: ['size', 'mtime'] },
    { path: 'e\u001b', kind: 'unreadable', problem: 'EIO: i/o error, read' },
  ],
};
const GONE: VerifiedTarget = { ...OK, path: 'Texts/main', state: 'gone' };

function report(fields: Partial<VerifyReport> = {}): VerifyReport {
  return {
    directory: '/m',
    isComplete: true,
    selected: 1,
    targets: [OK],
    unreadableManifests: [],
    strays: [],
    mirrored: 1,
    expected: null,
    lost: [],
    inventory: 'ok',
    inventoryProblem: null,
    readBytes: 3000,
    durationMs: 1500,
    ...fields,
  };
}

describe('the report of a verification', () => {
  it('lists every kind of difference, and what to do', () => {
    expect(String(describeVerification(report({ targets: [DIFFERS, GONE] })))).toBe(
      [
        'Planning/main differs from its manifest in 5 places:',
        '  added      a',
        '  added      b (link)',
        '  missing    c',
        '  modified   d: size, mtime',
        '  unreadable e\\u001b: EIO: i/o error, read',
        '',
        'Texts/main is gone: there is no folder mirror/Texts/main',
        '',
        '2 targets, 6 files, 6.0 kB, verified in 1.5 s: 2 targets not as published.',
        '`workbook-mirror verify --repair` repairs it, and deletes all added files (`--json` lists them); what the history does not have is downloaded.',
      ].join('\n'),
    );
  });

  it('says that there are no trees, and not that none are expected', () => {
    const nothing = report({ selected: 0, targets: [], mirrored: 0, expected: 0 });
    const [first] = String(describeVerification(nothing)).split('\n');
    expect(first).toBe('Nothing is mirrored in /m: no manifest is there.');
  });

  it('promises to leave alone only what is outside the published trees', () => {
    const text = String(describeVerification(report({ strays: [{ path: 'notes.txt', entry: 'file' }] })));
    expect(text).toContain('does not touch files outside the published trees');
  });

  it('gives no advice during a repair', () => {
    const text = String(describeVerification(report({ targets: [GONE] }), true));
    expect(text).toMatch(/1 target not as published\.$/);
  });

  it('says how far it got before an interruption', () => {
    expect(String(describeVerification(report({ isComplete: false, selected: 7 })))).toBe(
      'Interrupted after 1 of 7: 1 target, 3 files, 3.0 kB, verified in 1.5 s: all as published.',
    );
  });
});

it('the report of a repair leads to the reason if something still differs, and not to the same command again', () => {
  const repaired = { fromDisk: [], pulled: [], inventoryWritten: false };
  const differs = report({ targets: [DIFFERS] });
  const text = String(describeRepair({ before: differs, repaired, after: differs }));
  expect(text).toMatch(/\n`workbook-mirror status` shows why it is not complete\.$/);
  expect(text).not.toContain('--repair');
});
