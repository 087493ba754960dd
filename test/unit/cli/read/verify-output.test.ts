import { describe, expect, it } from 'vitest';

import { createVerifyProgress, describeVerification } from '../../../../src/cli/read/verify-output.ts';
import type { VerifiedTarget, VerifyReport } from '../../../../src/mirror/store/verify/verify.ts';
import type { Loudness } from '../../../../src/cli/frame/loudness.ts';
import type { TerminalText } from '../../../../src/lib/text/terminal-text.ts';

const CLEAR = '\r\u001b[K';

const OK: VerifiedTarget = {
  path: 'Accounting/main',
  state: 'ok',
  differences: [],
  files: 3,
  sizeBytes: 3000,
};
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

function show(
  isTerminal: boolean,
  loudness: Loudness = 'normal',
  isReportBelow = false,
): {
  written: string[];
  progress: ReturnType<typeof createVerifyProgress>;
} {
  const written: string[] = [];
  let nowMs = 0;
  const now = (): number => (nowMs += 1000);
  const write = (text: TerminalText): number => written.push(String(text));
  const options = {
    write,
    isTerminal,
    columns: () => 60,
    loudness,
    isReportBelow,
    isReportTold: isReportBelow,
    now,
  };
  return { written, progress: createVerifyProgress(options) };
}

describe('the progress of a verification', () => {
  it('is nothing at all when quiet', () => {
    const { written, progress } = show(true, 'quiet');
    progress.onEvent({ kind: 'started', selected: 1, totalBytes: 6_000_000 });
    progress.onEvent({ kind: 'examined', target: GONE });
    progress.finish(report({ targets: [GONE] }));
    expect(written).toEqual([]);
  });

  it('is only how far it is where the report is shown in the same place', () => {
    const { written, progress } = show(true, 'normal', true);
    progress.onEvent({ kind: 'started', selected: 1, totalBytes: 6_000_000 });
    progress.onEvent({ kind: 'examined', target: GONE });
    progress.finish(report({ targets: [GONE] }));
    expect(written.filter((text) => text.endsWith('\n'))).toEqual([]);
    expect(written.at(-1)).toBe(CLEAR);
  });

  it('names every target when verbose', () => {
    const { written, progress } = show(false, 'verbose');
    progress.onEvent({ kind: 'started', selected: 1, totalBytes: 6_000_000 });
    progress.onEvent({ kind: 'examined', target: OK });
    expect(written).toEqual(['✓ Accounting/main: 3 files, 3.0 kB\n']);
  });

  it('says on a terminal how far it is and how fast', () => {
    const { written, progress } = show(true);
    progress.onEvent({ kind: 'started', selected: 2, totalBytes: 6_000_000 });
    progress.onEvent({ kind: 'read', bytes: 3_000_000 });
    progress.onEvent({ kind: 'examined', target: GONE });
    expect(written.at(1)).toBe(`${CLEAR}0 of 2 targets, 3.0 MB of 6.0 MB, 429 kB/s, 7.0 s left`);
    expect(written.at(2)).toBe(`${CLEAR}✗ Texts/main is gone: no folder stands at mirror/Texts/main\n`);
    progress.finish(report());
    expect(written.at(-1)).toBe(
      `${CLEAR}✓ 1 target, 3 files, 3.0 kB, verified in 1.5 s: all as published.\n`,
    );
  });

  it('says elsewhere only what is not in order, and how it ended', () => {
    const { written, progress } = show(false);
    progress.onEvent({ kind: 'started', selected: 4, totalBytes: 6_000_000 });
    progress.onEvent({ kind: 'read', bytes: 3000 });
    progress.onEvent({ kind: 'examined', target: OK });
    progress.onEvent({ kind: 'examined', target: null });
    progress.onEvent({ kind: 'examined', target: DIFFERS });
    progress.onEvent({ kind: 'examined', target: { path: 'x/y', problem: 'EIO' } });
    progress.finish(report({ targets: [OK, DIFFERS] }));
    expect(written).toStrictEqual([
      '✗ Planning/main differs from its manifest in 5 places\n',
      '✗ x/y: its manifest cannot be read: EIO\n',
      '! 2 targets, 6 files, 6.0 kB, verified in 1.5 s: 1 target not as published.\n',
    ]);
  });
});

describe('the report of a verification', () => {
  it('tells every kind of difference, and what to do', () => {
    expect(String(describeVerification(report({ targets: [DIFFERS, GONE] })))).toBe(
      [
        'Planning/main differs from its manifest in 5 places:',
        '  added      a',
        '  added      b (link)',
        '  missing    c',
        '  modified   d: size, mtime',
        '  unreadable e\\u001b: EIO: i/o error, read',
        '',
        'Texts/main is gone: no folder stands at mirror/Texts/main',
        '',
        '2 targets, 6 files, 6.0 kB, verified in 1.5 s: 2 targets not as published.',
        '`workbook-mirror verify --repair` repairs it; what the history does not have is downloaded.',
      ].join('\n'),
    );
  });

  it('advises nothing where it is put right now', () => {
    const text = String(describeVerification(report({ targets: [GONE] }), true));
    expect(text).toMatch(/1 target not as published\.$/);
  });

  it('says after an interruption how far it got', () => {
    expect(String(describeVerification(report({ isComplete: false, selected: 7 })))).toBe(
      'Interrupted after 1 of 7: 1 target, 3 files, 3.0 kB, verified in 1.5 s: all as published.',
    );
  });
});
