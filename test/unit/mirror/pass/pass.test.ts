import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Action, HoldReason } from '../../../../src/mirror/plan/actions.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import type { Outcome } from '../../../../src/mirror/plan/record.ts';
import { forEachConcurrently, joinSignals } from '../../../../src/lib/concurrency/concurrency.ts';
import { exitCodeOfPass } from '../../../../src/mirror/pass/pass.ts';
import { listing, planInput, row } from '../../../support/builders.ts';

const [PULL] = makePlan(planInput({ listing: listing({ workbooks: [row()] }) }));

type Result = Parameters<typeof exitCodeOfPass>[0][number];

function result(outcome: Result['outcome'], action: Action | undefined = PULL): Result {
  if (action === undefined) throw new Error('no action');
  return { action, outcome };
}

function held(reason: HoldReason): Result {
  const { action } = result({ kind: 'held' });
  return result(
    { kind: 'held' },
    { ...action, kind: 'hold', reason, untilMs: null, missing: false, guarded: null },
  );
}

function failed(code: Extract<Outcome, { kind: 'failed' }>['code']): Result {
  return result({
    kind: 'failed',
    code,
    action: 'retry',
    message: '',
    hint: null,
    retryAfterMs: 0,
    fingerprint: null,
  });
}

const GOOD = [
  result({ kind: 'kept' }),
  result({ kind: 'pulled', changedFiles: 1, publishedAtMs: 1, isExamined: true, tree: null, isWhole: true }),
  result({ kind: 'absent' }),
  result({ kind: 'retired' }),
];

describe('the exit code of a pass', () => {
  it.each<[string, Result[], number]>([
    ['that had nothing to do', [], 0],
    ['in which all went well', GOOD, 0],
    ['that left alone what the settings leave out', [...GOOD, held('not-selected')], 0],
    ['that left HEAD alone, as its branch is known', [...GOOD, held('superseded')], 0],
    ['that left a pull behind', [...GOOD, result({ kind: 'unfinished', hasBegun: true })], 0],
    ['in which a target failed', [...GOOD, failed('service.failed')], 1],
    ['in which the service refused a repository', [...GOOD, failed('contents.forbidden')], 1],
    ['in which a target was missing', [...GOOD, result({ kind: 'missing' })], 1],
    [
      'that held a deletion',
      [
        ...GOOD,
        result({
          kind: 'guarded',
          held: { subject: 'files', deletions: 8, of: 10, digest: 'd' },
          fingerprint: null,
        }),
      ],
      1,
    ],
    ['with a defect', [failed('service.failed'), failed('internal.defect'), ...GOOD], 70],
    ...(
      [
        'backing-off',
        'quarantined',
        'service-processing',
        'path-occupied',
        'repository-missing',
        'no-repositories-listed',
        'listing-incomplete',
        'listing-contradicts-itself',
      ] as const
    ).map((reason): [string, Result[], number] => [
      `that held a target: ${reason}`,
      [...GOOD, held(reason)],
      1,
    ]),
  ])('%s', (_what, results, exitCode) => {
    expect(exitCodeOfPass(results, { repositories: 1, selected: 1, unmatched: [] })).toBe(exitCode);
  });

  it('that selected nothing, although there is something', () => {
    expect(exitCodeOfPass([], { repositories: 1, selected: 0, unmatched: [] })).toBe(1);
    expect(exitCodeOfPass([], { repositories: 0, selected: 0, unmatched: [] })).toBe(0);
  });
});

describe('work on many items', () => {
  it('is done once for each, no more at a time than allowed', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.nat()),
      fc.integer({ min: 1, max: 8 }),
      async (items, limit) => {
        const done: number[] = [];
        let running = 0;
        let most = 0;
        await forEachConcurrently(items, limit, async (item) => {
          running += 1;
          most = Math.max(most, running);
          await Promise.resolve();
          running -= 1;
          done.push(item);
        });
        expect(done.sort((a, b) => a - b)).toEqual(items.sort((a, b) => a - b));
        expect(most).toBeLessThanOrEqual(limit);
        expect(most).toBe(Math.min(limit, items.length));
      },
    );
    await fc.assert(property);
  });

  it('begins in order', async () => {
    const begun: number[] = [];
    await forEachConcurrently([1, 2, 3, 4, 5], 2, async (item) => {
      begun.push(item);
      await Promise.resolve();
    });
    expect(begun).toEqual([1, 2, 3, 4, 5]);
  });

  it('stops what has not begun at the first failure, lets the rest end, and throws it', async () => {
    const ended: number[] = [];
    const second = Promise.withResolvers<void>();
    const work = forEachConcurrently([1, 2, 3, 4], 2, async (item) => {
      if (item === 1) throw new Error('first');
      await second.promise;
      ended.push(item);
      throw new Error('second');
    });
    second.resolve();
    await expect(work).rejects.toThrow('first');
    expect(ended).toEqual([2]);
  });

  it('takes its items one by one from whatever gives them', async () => {
    let given = 0;
    const items = function* (): Generator<number> {
      for (;;) yield (given += 1);
    };
    const work = forEachConcurrently(items(), 3, async (item) => {
      await Promise.resolve();
      if (item === 10) throw new Error('enough');
    });
    await expect(work).rejects.toThrow('enough');
    expect(given).toBeLessThan(20);
  });

  it('is nothing for nothing', async () => {
    await expect(
      forEachConcurrently([], 4, () => Promise.reject(new Error('never'))),
    ).resolves.toBeUndefined();
  });
});

describe('joined signals', () => {
  it.each([0, 1])('fire with either of the two, and for its reason', (which) => {
    const controls = [new AbortController(), new AbortController()] as const;
    const { signal } = joinSignals(controls[0].signal, controls[1].signal);
    expect(signal.aborted).toBe(false);
    controls[which]?.abort('stopped');
    controls[1 - which]?.abort('later');
    expect([signal.aborted, signal.reason]).toEqual([true, 'stopped']);
  });

  it('have fired if one of them has', () => {
    expect(joinSignals(new AbortController().signal, AbortSignal.abort('before')).signal.reason).toBe(
      'before',
    );
  });

  it('fire no more when they are left', () => {
    const control = new AbortController();
    const { signal, leave } = joinSignals(control.signal, new AbortController().signal);
    leave();
    control.abort();
    expect(signal.aborted).toBe(false);
  });
});
