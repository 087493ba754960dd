import { describe, expect, it } from 'vitest';

import { initialLive, nextLive } from '../../../../src/daemon/status/live.ts';
import { livenessOf, readinessOf } from '../../../../src/daemon/status/readiness.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import type { TargetStatus } from '../../../../src/app/target-status.ts';
import { NOW_MS, passFinished } from '../../../support/builders.ts';
import { targetStatus } from '../../../support/report.ts';

const DRIFT = { added: 1, missing: 0, modified: 0, first: 'a', sinceMs: NOW_MS };

const LISTED = { isListed: true, selectsNothing: false };

describe('a mirror is ready', () => {
  it.each<[string, Partial<TargetStatus>]>([
    ['when its target is fresh', {}],
    ['when its target is only missing from the list', { state: 'missing', isStale: true }],
    ['when a new target is queued', { state: 'pending', verifiedAtMs: null }],
    ['when an unselected target is old', { state: 'unselected', isStale: true }],
    ['when a target is absent from the service', { state: 'absent', changedAtMs: null }],
  ])('%s', (_when, facts) => {
    const readiness = readinessOf([targetStatus(facts)], LISTED);
    expect(readiness).toStrictEqual({ ...LISTED, isReady: true, stateProblem: null, notReady: [] });
  });

  it('when there are no targets at all, once that is known, and not if the settings select none', () => {
    expect(readinessOf([], LISTED).isReady).toBe(true);
    expect(readinessOf([], { isListed: true, selectsNothing: true }).isReady).toBe(false);
  });
});

describe('a mirror is not ready', () => {
  it('before the first finished pass, however fresh it looks', () => {
    const unlisted = { ...LISTED, isListed: false };
    const readiness = readinessOf([targetStatus()], unlisted);
    expect(readiness).toStrictEqual({ ...unlisted, isReady: false, stateProblem: null, notReady: [] });
  });

  it.each<[string, Partial<TargetStatus>, string]>([
    ['never verified', { state: 'pending', verifiedAtMs: null, isStale: true }, 'never-verified'],
    ['stale', { state: 'stale', isStale: true }, 'stale'],
    ['held for so long that it is stale', { state: 'held', isStale: true }, 'stale'],
    ['failing for so long that it is stale', { state: 'failing', isStale: true }, 'stale'],
    ['failing, although it was verified lately', { state: 'failing' }, 'failing'],
    ['in quarantine', { state: 'quarantined' }, 'quarantined'],
    ['held', { state: 'held' }, 'held'],
    ['gone from the disk', { state: 'damaged', isStale: true }, 'damaged'],
    ['restored from the history', { state: 'held', isStale: true, restoredAtMs: NOW_MS }, 'restored'],
    ['changed by someone', { state: 'drifted', drift: DRIFT }, 'drifted'],
    ['changed by someone, and failing', { state: 'failing', drift: DRIFT }, 'drifted'],
  ])('when a target is %s', (_when, facts, reason) => {
    const readiness = readinessOf([targetStatus(), targetStatus({ target: 'B/main', ...facts })], LISTED);
    expect(readiness).toMatchObject({ isReady: false, notReady: [{ target: 'B/main', reason }] });
  });
});

describe('the loop', () => {
  const LIMIT_MS = 15 * 60_000;
  const idle = { hasStarted: true, isPassing: false, isStopping: false };

  it.each([
    ['starting', { ...idle, hasStarted: false }, 0, true],
    ['idle', idle, 0, true],
    ['passing', { ...idle, isPassing: true }, LIMIT_MS, true],
    ['stuck', { ...idle, isPassing: true }, LIMIT_MS + 1, false],
    ['stopping', { ...idle, isStopping: true }, 0, true],
    ['passing', idle, 500, true],
    ['stuck', idle, LIMIT_MS + 1, false],
    ['stuck', { hasStarted: false, isPassing: true, isStopping: true }, LIMIT_MS * 5, false],
  ])('is %s', (state, facts, silentMs, isAlive) => {
    expect(livenessOf(facts, silentMs, 120_000)).toMatchObject({ state, isAlive });
  });

  it('is not stuck while the settings allow the service to be silent', () => {
    const passing = { ...idle, isPassing: true };
    expect(livenessOf(passing, 61 * 60_000, 3_600_000).isAlive).toBe(true);
    expect(livenessOf(passing, 121 * 60_000, 3_600_000).isAlive).toBe(false);
  });
});

const NONE = { count: 0, first: [] };
const STARTED: MirrorEvent = { name: 'pass.started', trigger: 'schedule' };
const FINISHED: MirrorEvent = { name: 'pass.finished', ...passFinished() };
const WRONG = { code: 'service.failed', message: 'It failed.', hint: null } as const;
const FAILED: MirrorEvent = { name: 'pass.failed', trigger: 'schedule', durationMs: 1, ...WRONG };

function listing(isWhole: boolean): MirrorEvent {
  return { name: 'listing.read', isWhole, repositories: 1, workbooks: 1, processing: NONE, failed: NONE };
}

function reloaded(...changed: string[]): MirrorEvent {
  return { name: 'settings.reloaded', changed };
}

function after(...events: readonly MirrorEvent[]): boolean {
  return events.reduce((live, event) => nextLive(live, event, 0), initialLive(0)).listed.isKnown;
}

const LOST: MirrorEvent = { name: 'state.failed', code: 'state.unavailable', message: '', hint: null };
const PASS = [STARTED, listing(true), FINISHED];

it.each<[string, boolean, readonly MirrorEvent[]]>([
  ['is not known at first', false, []],
  ['is not known during the first pass', false, [STARTED, listing(true)]],
  ['is known after a pass with a complete list', true, PASS],
  ['stays known when a later pass fails', true, [...PASS, STARTED, FAILED]],
  ['is not known from an incomplete list', false, [STARTED, listing(false), FINISHED]],
  ['is no longer known after such a list', false, [...PASS, STARTED, listing(false), FINISHED]],
  ['is no longer known under settings that select others', false, [...PASS, reloaded('targets')]],
  ['is no longer known at another service', false, [...PASS, reloaded('service.baseUrl')]],
  ['stays known under other settings', true, [...PASS, reloaded('schedule', 'service.timeout')]],
  [
    'is not known after a pass that began before the settings changed',
    false,
    [...PASS, STARTED, listing(true), reloaded('repositories.include'), FINISHED],
  ],
  ['is not known if the pass is not recorded', false, [STARTED, listing(true), LOST, FINISHED]],
  ['is not known until the next pass after that', false, [LOST, ...PASS, { name: 'state.recovered' }]],
  ['is known after the next pass', true, [STARTED, reloaded('branches.exclude'), FINISHED, ...PASS]],
])('the set of targets %s', (_what, isListed, events) => {
  expect(after(...events)).toBe(isListed);
});
