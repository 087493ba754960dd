import { describe, expect, it } from 'vitest';

import type { MirrorEvent } from '../../../../src/app/events.ts';
import {
  type Notification,
  notificationsOfEvent,
  notificationsOfTargets,
} from '../../../../src/daemon/hooks/notifications.ts';
import { isChosen, NOTIFICATION_TYPES } from '../../../../src/config/schema-network.ts';
import type { TargetState, TargetStatus } from '../../../../src/app/target-status.ts';
import { signatureOf } from '../../../../src/daemon/hooks/http-hooks.ts';
import { targetStatus } from '../../../support/report.ts';

const READY = { isReady: true, isListed: true, selectsNothing: false, stateProblem: null, notReady: [] };

function status(state: TargetState, target = 'A/main'): TargetStatus {
  return targetStatus({ target, state, verifiedAtMs: 1 });
}

function types(notifications: readonly Notification[]): string[] {
  return notifications.map(({ type }) => type);
}

describe('notifications of targets', () => {
  it('come once when a problem begins, however often it is seen, and once when it ends', () => {
    const troubles = new Map<string, string>();
    const see = (state: TargetState) => types(notificationsOfTargets(troubles, [status(state)], READY));
    expect(see('fresh')).toEqual([]);
    expect(see('failing')).toEqual(['target.failed']);
    expect(see('failing')).toEqual([]);
    expect(see('quarantined')).toEqual(['target.failed']);
    expect(see('stale')).toEqual([]);
    expect(see('fresh')).toEqual(['target.recovered']);
    expect(see('held')).toEqual(['target.held']);
    expect(see('drifted')).toEqual(['target.drifted']);
    expect(see('fresh')).toEqual(['target.recovered']);
    expect(troubles).toEqual(new Map());
  });

  it('forget a deleted target', () => {
    const troubles = new Map([
      ['target:A/main', 'failing'],
      ['pass', 'failed'],
    ]);
    expect(notificationsOfTargets(troubles, [], { ...READY, stateProblem: 'It fails.' })).toEqual([]);
    expect(troubles.size).toBe(2);
    expect(notificationsOfTargets(troubles, [], READY)).toEqual([]);
    expect([...troubles.keys()]).toEqual(['pass']);
  });

  it('say when the mirror stops being fresh, with the first targets, and when it is fresh again', () => {
    const troubles = new Map<string, string>();
    const notReady = Array.from({ length: 30 }, (_, index) => ({
      target: `T${index}/main`,
      reason: 'stale' as const,
      verifiedAtMs: 0,
    }));
    const stale = { ...READY, isReady: false, notReady };
    expect(notificationsOfTargets(troubles, [], { ...stale, isListed: false })).toEqual([]);
    expect(
      notificationsOfTargets(troubles, [status('failing')], { ...stale, stateProblem: 'It fails.' }),
    ).toEqual([]);
    const [told] = notificationsOfTargets(troubles, [], stale);
    expect(told).toMatchObject({ type: 'mirror.stale', fields: { count: 30 } });
    expect(told?.fields['first']).toHaveLength(20);
    expect(notificationsOfTargets(troubles, [], stale)).toEqual([]);
    expect(types(notificationsOfTargets(troubles, [], READY))).toEqual(['mirror.fresh']);
  });
});

describe('notifications of events', () => {
  const failure = { code: 'service.unreachable', message: 'It failed.', hint: null } as const;
  const failed: MirrorEvent = { name: 'pass.failed', trigger: 'schedule', durationMs: 1, ...failure };
  const finished = { name: 'pass.finished' } as MirrorEvent;
  const pulled = { name: 'target.pulled', target: 'A/main', files: 1, added: 0, changed: 0, removed: 0 };

  const hook = { hook: 'afterPublish', ...failure };
  const hookFailed = (target: string | null): MirrorEvent => ({ name: 'hook.failed', ...hook, target });
  const ran = { name: 'hook.finished', hook: 'afterPublish', durationMs: 1 } as const;

  it('come once for repeated failures of passes, and once when a pass succeeds', () => {
    const troubles = new Map<string, string>();
    const seen = [failed, failed, finished, finished].flatMap((event) =>
      types(notificationsOfEvent(troubles, event)),
    );
    expect(seen).toEqual(['pass.failed', 'pass.recovered']);
  });

  it('include a publish only if a file changed', () => {
    const troubles = new Map<string, string>();
    expect(notificationsOfEvent(troubles, pulled as MirrorEvent)).toEqual([]);
    const changed = { ...pulled, added: 2, removed: 2 } as MirrorEvent;
    expect(notificationsOfEvent(troubles, changed)).toMatchObject([
      { type: 'target.published', fields: { target: 'A/main', added: 2, removed: 2 } },
    ]);
  });

  it('are separate for the keys of each setting, for each hook and for the settings', () => {
    const troubles = new Map<string, string>();
    const events: MirrorEvent[] = [
      { name: 'credentials.refused', credential: 'apiKey', nextAttemptAtMs: 1 },
      { name: 'credentials.refused', credential: 'apiKey', nextAttemptAtMs: 2 },
      { name: 'credentials.accepted', credential: 'apiToken', key: 1 },
      { name: 'credentials.accepted', credential: 'apiKey', key: 2 },
      hookFailed('A/main'),
      hookFailed('A/main'),
      { ...ran, target: 'B/main' },
      { ...ran, target: 'A/main' },
      { name: 'settings.refused', ...failure, code: 'settings.invalid' },
      { name: 'settings.reloaded', changed: ['schedule'] },
      { name: 'settings.reloaded', changed: ['schedule'] },
      { name: 'loop.stuck', silentMs: 900_000 },
    ];
    expect(events.flatMap((event) => types(notificationsOfEvent(troubles, event)))).toEqual([
      'credentials.refused',
      'credentials.accepted',
      'hook.failed',
      'hook.recovered',
      'settings.refused',
      'settings.accepted',
      'pass.stuck',
    ]);
    expect(JSON.stringify(notificationsOfEvent(troubles, finished))).toBe('[]');
  });

  it('come each time that the due runs of a hook are unknown, and when they are known again', () => {
    const troubles = new Map<string, string>();
    const [unknown, known] = [hookFailed(null), { ...ran, target: 'A/main' }];
    const events = [unknown, unknown, known, known, unknown];
    const told = events.flatMap((event) => types(notificationsOfEvent(troubles, event)));
    expect(told).toEqual(['hook.failed', 'hook.recovered', 'hook.failed']);
  });
});

it.each<readonly [string, number]>([
  ['*', NOTIFICATION_TYPES.length],
  ['pass.*', 3],
  ['target.failed', 1],
  ...['', 'target', 'target.', 'targets.*', '**', '*.failed'].map((unknown) => [unknown, 0] as const),
])('the choice of notifications %j takes %i types', (filter, count) => {
  expect(NOTIFICATION_TYPES.filter((type) => isChosen(type, [filter]))).toHaveLength(count);
});

// printf … | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64
it('the signature is the same as from openssl, with and without a prefix of the key', () => {
  const [one, other] = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'Zg+/'.repeat(10)] as const;
  expect(signatureOf(one, 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}')).toBe(
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  );
  expect(signatureOf(other, 'msg_1', 0, '{"a":"é"}')).toBe('v1,YdLHL/GS664w5EYGF40kobuqbffZsMeMkDlna4YuBjA=');
});
