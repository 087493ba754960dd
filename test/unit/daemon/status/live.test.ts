import { describe, expect, it } from 'vitest';

import type { MirrorEvent } from '../../../../src/app/events.ts';
import { initialLive, nextLive, PASSES_KEPT } from '../../../../src/daemon/status/live.ts';
import type { Live } from '../../../../src/daemon/status/status-schema.ts';
import { passFinished, pulledEvent } from '../../../support/builders.ts';

const START_MS = 1_750_000_000_000;

const { trigger: _trigger, durationMs: _duration, ...SUMMARY } = passFinished({ targets: 3, pulled: 1 });
const WRONG = { code: 'service.unreachable', message: 'It does not answer.', hint: null } as const;
const PULLED = pulledEvent();
type Triggered = 'start' | 'schedule' | 'signal';
const begun = (trigger: Triggered): MirrorEvent => ({ name: 'pass.started', trigger });
const finished = (trigger: Triggered, durationMs = 1): MirrorEvent => ({
  name: 'pass.finished',
  trigger,
  durationMs,
  ...SUMMARY,
});
const started = (target: string): MirrorEvent => ({ name: 'target.started', target, reason: 'full-check' });
const slow = (target: string, startedAtMs = START_MS): MirrorEvent => ({
  name: 'target.slow',
  target,
  startedAtMs,
});
const SLOW_ENDED = { name: 'target.slow_ended', target: 'A/main', result: 'pulled', durationMs: 1 } as const;
const PLANNED = { name: 'pass.planned', pull: 2, keep: 1, hold: 0, retire: 0 } as const;

/** The state after events, one per second. */
function after(...events: readonly MirrorEvent[]): Live {
  const first = initialLive(START_MS);
  return events.reduce((live, event, index) => nextLive(live, event, START_MS + index * 1000), first);
}

describe('the state of the daemon', () => {
  it('has a pass with its running and finished pulls', () => {
    const { pass } = after(begun('signal'), PLANNED, started('A/main'), started('B/main'), PULLED);
    expect(pass).toStrictEqual({
      trigger: 'signal',
      startedAtMs: START_MS,
      planned: { pull: 2, keep: 1, hold: 0, retire: 0 },
      done: 1,
      pulling: ['B/main'],
    });
  });

  it('counts a pull once that ends with several events', () => {
    const approved = { name: 'deletion.approved', target: 'A/main', subject: 'files' } as const;
    const { pass } = after(begun('signal'), started('A/main'), approved, PULLED);
    expect(pass).toMatchObject({ done: 1, pulling: [] });
  });

  it('knows the slow pulls of this pass and of earlier ones, and counts those of this pass when they end', () => {
    const before = [begun('start'), started('A/main'), started('B/main'), slow('A/main')];
    expect(after(...before)).toMatchObject({
      pass: { done: 0, pulling: ['B/main'] },
      slow: [{ target: 'A/main', startedAtMs: START_MS }],
    });
    const ended = after(...before, PULLED, SLOW_ENDED);
    expect(ended).toMatchObject({ pass: { done: 1, pulling: ['B/main'] }, slow: [] });
    const next = [...before, finished('start'), begun('schedule')];
    expect(after(...before, finished('start'))).toMatchObject({ pass: null, slow: [{ target: 'A/main' }] });
    expect(after(...next, slow('B/main')).slow).toHaveLength(2);
    expect(after(...next, PULLED, SLOW_ENDED)).toMatchObject({ pass: { done: 0, pulling: [] }, slow: [] });
    expect(after(begun('schedule'), SLOW_ENDED)).toMatchObject({ pass: { done: 0 } });
  });

  it('keeps how passes ended', () => {
    const failing = { name: 'pass.failed', trigger: 'start', durationMs: 700, ...WRONG } as const;
    const abandoning = { name: 'pass.abandoned', trigger: 'schedule', durationMs: 1 } as const;
    const [start, schedule] = [begun('start'), begun('schedule')];
    const live = after(start, failing, schedule, finished('schedule', 800), schedule, abandoning);
    expect(live.pass).toBeNull();
    const failed = { trigger: 'start', durationMs: 700, result: 'failed', failure: WRONG };
    const ended = { trigger: 'schedule', durationMs: 800, result: 'finished', summary: SUMMARY };
    const abandoned = { trigger: 'schedule', durationMs: 1, result: 'abandoned' };
    const none = { summary: null, failure: null };
    expect(live.passes).toStrictEqual([
      { ...none, ...failed, startedAtMs: START_MS },
      { ...none, ...ended, startedAtMs: START_MS + 2000 },
      { ...none, ...abandoned, startedAtMs: START_MS + 4000 },
    ]);
  });

  it('knows the targets only after the first finished pass', () => {
    const failed: MirrorEvent = { name: 'pass.failed', trigger: 'start', durationMs: 1, ...WRONG };
    expect(after(failed).hasFinishedPass).toBe(false);
    expect(after(finished('start'), failed).hasFinishedPass).toBe(true);
  });

  it('forgets the oldest passes', () => {
    const { passes } = after(...Array.from({ length: PASSES_KEPT + 5 }, () => finished('start')));
    expect(passes).toHaveLength(PASSES_KEPT);
    expect(passes[0]?.startedAtMs).toBe(START_MS + 5000 - 1);
  });

  it('keeps the time of the first refusal while a key is retried', () => {
    const refused = (nextAttemptAtMs: number): MirrorEvent => ({
      name: 'credentials.refused',
      credential: 'apiKey',
      nextAttemptAtMs,
    });
    const { credentials } = after(refused(1), refused(2));
    expect(credentials).toStrictEqual({
      apiKey: { state: 'refused', key: null, sinceMs: START_MS, nextAttemptAtMs: 2 },
      apiToken: { state: 'unknown', key: null, sinceMs: null, nextAttemptAtMs: null },
    });
    const accepted: MirrorEvent = { name: 'credentials.accepted', credential: 'apiKey', key: 2 };
    expect(after(refused(1), accepted).credentials.apiKey).toStrictEqual({
      state: 'accepted',
      key: 2,
      sinceMs: START_MS + 1000,
      nextAttemptAtMs: null,
    });
  });

  it('shows new settings as refused until they are accepted', () => {
    const refused: MirrorEvent = { name: 'settings.refused', ...WRONG };
    expect(after(refused).settings.problem).toStrictEqual(WRONG);
    const restartNeeded: MirrorEvent = { name: 'settings.restart_needed', settings: ['directory'] };
    const { settings } = after(refused, { name: 'settings.reloaded', changed: ['schedule'] }, restartNeeded);
    const takenAtMs = START_MS + 1000;
    expect(settings).toStrictEqual({ takenAtMs, problem: null, restartNeeded: ['directory'] });
    const over = after(restartNeeded, { name: 'settings.restart_unneeded', settings: [] });
    expect(over.settings.restartNeeded).toEqual([]);
  });
});
