import { describe, expect, it } from 'vitest';

import { type ErrorCode, MirrorError } from '../../../../src/lib/errors/errors.ts';
import { retryAfterMs } from '../../../../src/lib/time/back-off.ts';
import type { Action, HoldAction } from '../../../../src/mirror/plan/actions.ts';
import { nextRecord, type RecordStep } from '../../../../src/mirror/plan/next-record.ts';
import type { Outcome, TargetRecord } from '../../../../src/mirror/plan/record.ts';
import type { Listing } from '../../../../src/mirror/upstream/listing.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import {
  failure,
  HOUR_MS,
  listing,
  MINUTE_MS,
  NOW_MS,
  planInput,
  published,
  publishedUnder,
  record,
  recordMap,
  repository,
  row,
  pulledOutcome,
} from '../../../support/builders.ts';

const LISTED_AT_MS = NOW_MS - 1000;
const FAILED = failed('service.failed');
const HELD: Outcome = { kind: 'held' };
const KEPT: Outcome = { kind: 'kept' };

function failed(code: ErrorCode, retryAfterMs = 0): Outcome {
  return { kind: 'failed', error: new MirrorError(code, 'It failed.', { hint: 'Wait.', retryAfterMs }) };
}

const PULL = {
  kind: 'pull',
  reason: 'full-check',
  path: 'Accounting/main',
  isMissing: false,
  fingerprint: 'digest',
} as const;

/** The fields of a step that tests vary. */
type StepFields = Partial<Omit<RecordStep, 'action'> & RecordStep['action']> & {
  readonly publishedAtMs?: number;
};

function after(before: TargetRecord, outcome: Outcome, fields: StepFields = {}): TargetRecord {
  const { publishedAtMs, ...rest } = fields;
  const tree = publishedAtMs === undefined ? null : published(repository(), { publishedAtMs });
  const action = { ...PULL, published: tree, ...rest };
  const facts = { outcome, tree: null, listedAtMs: LISTED_AT_MS, nowMs: NOW_MS, random: 0 };
  return nextRecord(before, { ...facts, action, ...rest });
}

/** A record with every field. */
const FULL = record({
  verifiedAtMs: 1,
  checkedAtMs: 2,
  examinedAtMs: 1,
  publishedAtMs: 5,
  missingPasses: 2,
  processingSinceMs: 3,
  absentSinceMs: 4,
  failure: failure({ attempts: 3 }),
});

const { decisions: _decisions, ...REMEMBERED } = FULL;
const SOUND = { missingPasses: 0, processingSinceMs: null, absentSinceMs: null, failure: null };
const CHECKED = { verifiedAtMs: LISTED_AT_MS, checkedAtMs: LISTED_AT_MS };

/** A complete answer without the repository. */
const GONE = listing({ repositories: [repository({ fullName: 'Other' })] });

/** The action of the next pass on a published tree with this record. */
function planned(
  before: TargetRecord,
  listed: Listing,
  nowMs = NOW_MS,
  tree = published(),
): Action | undefined {
  const input = { listing: listed, published: [tree], records: recordMap(before), nowMs };
  return makePlan(planInput(input)).find((action) => action.published === tree);
}

describe('the record after an action', () => {
  it.each<[string, Outcome, StepFields, Partial<TargetRecord>]>([
    [
      'that kept the target: verified, without problems',
      KEPT,
      { kind: 'keep', reason: 'unchanged' },
      { ...SOUND, verifiedAtMs: LISTED_AT_MS, checkedAtMs: 2 },
    ],
    [
      'that kept its absence: verified, absent since then',
      KEPT,
      { kind: 'keep', reason: 'absent' },
      { ...SOUND, verifiedAtMs: LISTED_AT_MS, checkedAtMs: 2, absentSinceMs: 4 },
    ],
    [
      'that pulled: verified and checked as of the listing',
      pulledOutcome(1),
      {},
      { ...SOUND, ...CHECKED, examinedAtMs: NOW_MS, publishedAtMs: NOW_MS },
    ],
    [
      'that pulled without reading the tree: no new facts about its bytes',
      { ...pulledOutcome(0, 5), isExamined: false },
      {},
      { ...CHECKED, examinedAtMs: 1, publishedAtMs: 5 },
    ],
    [
      'on another tree than it knew: the facts about the old one are dropped',
      HELD,
      { kind: 'hold', reason: 'backing-off', publishedAtMs: 6 },
      { verifiedAtMs: null, checkedAtMs: null, examinedAtMs: null, publishedAtMs: 6 },
    ],
    [
      'that held because an answer proves nothing: no change',
      HELD,
      { kind: 'hold', reason: 'listing-incomplete' },
      REMEMBERED,
    ],
    [
      'that held although the target was listed: no longer missing',
      HELD,
      { kind: 'hold', reason: 'backing-off' },
      { ...REMEMBERED, missingPasses: 0 },
    ],
    [
      'that waited for the service again: since the first time',
      HELD,
      { kind: 'hold', reason: 'service-processing' },
      { ...REMEMBERED, missingPasses: 0 },
    ],
    [
      'that missed the target: counted, without a failure',
      { kind: 'missing' },
      { kind: 'hold', reason: 'repository-missing' },
      { verifiedAtMs: 1, checkedAtMs: 2, missingPasses: 3, missingAtMs: LISTED_AT_MS, failure: null },
    ],
    [
      'that found no contents: verified, checked now, absent since the first time',
      { kind: 'absent' },
      {},
      { ...SOUND, verifiedAtMs: LISTED_AT_MS, checkedAtMs: NOW_MS, absentSinceMs: 4 },
    ],
    [
      'that retired the tree: without problems',
      { kind: 'retired' },
      { kind: 'retire', reason: 'repository-gone' },
      { ...SOUND, verifiedAtMs: 1 },
    ],
    [
      'that failed: neither verified nor checked, and counted',
      FAILED,
      {},
      {
        verifiedAtMs: 1,
        checkedAtMs: 2,
        missingPasses: 0,
        processingSinceMs: 3,
        absentSinceMs: 4,
        failure: {
          code: 'service.failed',
          action: 'retry',
          message: 'It failed.',
          hint: 'Wait.',
          sinceMs: NOW_MS - HOUR_MS,
          lastAtMs: NOW_MS,
          attempts: 4,
          nextAttemptAtMs: NOW_MS + 4 * MINUTE_MS,
          fingerprint: 'digest',
        },
      },
    ],
    [
      'whose retirement failed: the answers that lack the target still count',
      FAILED,
      { kind: 'retire', reason: 'repository-gone' },
      { verifiedAtMs: 1, missingPasses: 2 },
    ],
    [
      'whose retirement found nothing of its repository, which is listed: the answers count from zero',
      failed('contents.not_found'),
      { kind: 'retire', reason: 'branch-gone' },
      { missingPasses: 0 },
    ],
  ])('%s', (_what, outcome, step, expected) => {
    expect(after(FULL, outcome, step)).toMatchObject(expected);
  });

  it('starts the wait for the service, or the absence, now', () => {
    const held = after(record(), HELD, { kind: 'hold', reason: 'service-processing' });
    expect(held.processingSinceMs).toBe(NOW_MS);
    expect(after(record(), HELD, { reason: 'quarantined' }).processingSinceMs).toBeNull();
    expect(after(record(), { kind: 'absent' }).absentSinceMs).toBe(NOW_MS);
  });

  it('has the present name of the repository, and does not change the earlier record', () => {
    const before = record();
    const copy = structuredClone(before);
    expect(after(before, { kind: 'kept' }, { path: 'Finance/main' }).repository).toBe('Finance');
    expect(before).toEqual(copy);
  });

  it.each([
    ['repository-gone', GONE],
    ['branch-gone', listing({ workbooks: [] })],
  ])('keeps counting missing answers while a failed retirement waits: %s', (reason, gone) => {
    const before = record({ missingPasses: 2 });
    expect(planned(before, gone)).toMatchObject({ kind: 'retire', reason });
    const failed = after(before, FAILED, { kind: 'retire', reason });
    const wait = planned(failed, gone);
    expect(wait).toMatchObject({ kind: 'hold', reason: 'backing-off' });
    expect(planned(after(failed, HELD, wait as HoldAction), gone, NOW_MS + HOUR_MS)?.kind).toBe('retire');
  });

  it('of a pulled target lets the next pass keep it', () => {
    const rows = [row()];
    const pulled = after(record({ missingPasses: 1 }), pulledOutcome(0, published().publishedAtMs));
    const tree = publishedUnder(repository(), rows, { verifiedAtMs: 0 });
    expect(planned(pulled, listing({ workbooks: rows }), NOW_MS, tree)?.kind).toBe('keep');
  });
});

describe('failures in a row', () => {
  const failing = (count: number, outcome: Outcome = FAILED, random = 0): TargetRecord => {
    let now = record();
    for (let times = 0; times < count; times += 1)
      now = after(now, outcome, { random, nowMs: NOW_MS + times });
    return now;
  };

  it('are counted, with the time of the first', () => {
    expect(failing(1).failure).toMatchObject({ attempts: 1, sinceMs: NOW_MS, lastAtMs: NOW_MS });
    expect(failing(5).failure).toMatchObject({ attempts: 5, sinceMs: NOW_MS, lastAtMs: NOW_MS + 4 });
  });

  it('lengthen the wait, up to a limit', () => {
    const waits = [1, 2, 3, 6, 7, 8, 50, 2000].map((count) => {
      const { failure: last } = failing(count, FAILED, 0);
      return ((last?.nextAttemptAtMs ?? 0) - (last?.lastAtMs ?? 0)) / MINUTE_MS;
    });
    expect(waits).toEqual([0.5, 1, 2, 16, 30, 30, 30, 30]);
  });

  it.each(['archive.refused', 'contents.forbidden', 'directory.unusable', 'publish.leased'] as const)(
    'are retried at a slow, steady pace: %s',
    (code) => {
      for (const count of [1, 7]) {
        const { failure: last } = failing(count, failed(code));
        expect((last?.nextAttemptAtMs ?? 0) - (last?.lastAtMs ?? 0)).toBe(HOUR_MS);
      }
    },
  );

  it.each(['service.failed', 'archive.refused', 'contents.forbidden'] as const)(
    'respect the wait that the service requests: %s',
    (code) => {
      const { failure: last } = failing(1, failed(code, 48 * HOUR_MS));
      expect(last?.nextAttemptAtMs).toBe(NOW_MS + 48 * HOUR_MS);
    },
  );

  it('never wait beyond the range of dates, whichever wait the service requests', () => {
    const wish = retryAfterMs('9999999999999', NOW_MS);
    const { failure: last } = failing(1, failed('service.failed', wish ?? 0));
    expect(() => new Date(last?.nextAttemptAtMs ?? 0).toISOString()).not.toThrow();
  });

  it('keep only the latest reason', () => {
    const error = new MirrorError('archive.refused', 'It is bad.');
    const now = after(failing(2), { kind: 'failed', error }, { fingerprint: 'x' });
    expect(now.failure).toMatchObject({ code: 'archive.refused', attempts: 3, hint: null, fingerprint: 'x' });
  });
});

describe('the decisions about a target', () => {
  it('are kept as one while they are the same, with the time of the first', () => {
    let now = record();
    for (const nowMs of [1, 2, 3])
      now = after(now, { kind: 'kept' }, { kind: 'keep', reason: 'unchanged', nowMs });
    expect(now.decisions).toEqual([{ kind: 'keep', reason: 'unchanged', result: 'kept', firstAtMs: 1 }]);
  });

  it.each<[string, StepFields]>([
    ['kind', { kind: 'hold' }],
    ['reason', { reason: 'never-mirrored' }],
    ['result', { outcome: pulledOutcome(2) }],
  ])('are distinguished by their %s, the latest first', (_what, fields) => {
    const first = after(record(), pulledOutcome(0));
    const second = after(first, pulledOutcome(0), fields);
    expect(second.decisions).toHaveLength(2);
    expect(second.decisions[1]).toEqual(first.decisions[0]);
  });

  it.each<[Outcome, string]>([
    [FAILED, 'service.failed'],
    [pulledOutcome(0), 'same contents'],
    [pulledOutcome(7), '7 files changed'],
    [{ kind: 'missing' }, 'missing'],
    [{ kind: 'retired' }, 'retired'],
  ])('name their result: %j', (outcome, result) => {
    expect(after(record(), outcome).decisions[0]?.result).toBe(result);
  });

  it('are limited to the last twenty', () => {
    let now = record();
    for (let times = 0; times < 30; times += 1)
      now = after(now, { kind: 'held' }, { reason: `reason ${times}` });
    expect(now.decisions.map(({ reason }) => reason)).toEqual(
      Array.from({ length: 20 }, (_, index) => `reason ${29 - index}`),
    );
  });
});
