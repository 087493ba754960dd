import { expect, it } from 'vitest';

import { initialLive, nextLive } from '../../../../src/daemon/status/live.ts';
import { describeLive } from '../../../../src/daemon/supervision/supervise.ts';

it('a status line names why new settings were refused, in one line', () => {
  const failure = { code: 'settings.invalid', message: 'Two:\n  one\n  two', hint: null } as const;
  const live = nextLive(initialLive(0), { name: 'settings.refused', ...failure }, 0);
  expect(String(describeLive(live))).toBe('no pass yet; new settings refused: Two: one two');
});

it('a status line says why there is no status page, as long as it is missing', () => {
  const failure = { code: 'http.unusable', message: 'Cannot listen.', hint: null } as const;
  const without = nextLive(initialLive(0), { name: 'http.unavailable', ...failure }, 0);
  expect(String(describeLive(without))).toBe('no pass yet; no status page: Cannot listen.');
  const passing = nextLive(without, { name: 'pass.started', trigger: 'start' }, 0);
  expect(String(describeLive(passing))).toContain('; no status page: Cannot listen.');
  const served = nextLive(without, { name: 'http.listening', address: 'http://127.0.0.1:1/' }, 0);
  expect(String(describeLive(served))).toBe('no pass yet');
});

it('a status line counts slow pulls, during a pass and between passes', () => {
  const slow = ['A', 'B', 'C', 'D'].map((name) => ({ target: `${name}/main`, startedAtMs: 0 }));
  const live = { ...initialLive(0), slow };
  expect(String(describeLive(live))).toBe('no pass yet; 4 pulls of more than a minute');
  const planned = { pull: 2, keep: 0, hold: 4, retire: 0 };
  const pass = { trigger: 'start', startedAtMs: 0, planned, done: 1, pulling: ['E/main'] } as const;
  expect(String(describeLive({ ...live, pass, slow: slow.slice(0, 1) }))).toBe(
    'pass (start): 1 of 2 pulls done; 1 pull of more than a minute',
  );
});
