import { describe, expect, it } from 'vitest';

import {
  isWaiting,
  type KeyEvent,
  type KeyMemory,
  Keyring,
  nextRefusal,
  type RefusedKeys,
} from '../../../../src/mirror/upstream/keyring.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const MINUTE_MS = 60_000;
const KEYS = { generation: 'current', digest: 'a' } as const;

/** The state after a number of consecutive refusals, each at its retry, without jitter. */
function refusedTimes(times: number): RefusedKeys {
  let refused = nextRefusal(null, KEYS, NOW_MS, 1);
  for (let more = 1; more < times; more += 1) refused = nextRefusal(refused, KEYS, refused.untilMs, 1);
  return refused;
}

describe('the wait of refused keys', () => {
  it('doubles from a minute to an hour', () => {
    const minutes = [1, 2, 3, 4, 5, 6, 7, 20].map((times) => {
      const before = times === 1 ? NOW_MS : refusedTimes(times - 1).untilMs;
      return (refusedTimes(times).untilMs - before) / MINUTE_MS;
    });
    expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  });

  it('ends at its time', () => {
    expect(isWaiting(refusedTimes(1), NOW_MS + MINUTE_MS - 1)).toBe(true);
    expect(isWaiting(refusedTimes(1), NOW_MS + MINUTE_MS)).toBe(false);
  });

  it('is ignored if its clock was ahead', () => {
    expect(isWaiting(refusedTimes(1), NOW_MS - 25 * 60 * MINUTE_MS)).toBe(false);
  });

  it('restarts for other keys', () => {
    expect(nextRefusal(refusedTimes(3), { ...KEYS, digest: 'b' }, NOW_MS, 1)).toMatchObject({
      digest: 'b',
      attempts: 1,
      untilMs: NOW_MS + MINUTE_MS,
    });
  });

  it('grows once for parallel requests', () => {
    const refused = refusedTimes(1);
    expect(nextRefusal(refused, KEYS, NOW_MS, 1)).toBe(refused);
  });
});

describe('a keyring', () => {
  const url = new URL('https://h/api/repos');

  function keyring(keys: readonly string[], keyMemory: KeyMemory = {}) {
    const events: KeyEvent[] = [];
    const ring = new Keyring({
      keys: (generation) => (generation === 'current' ? keys : []),
      keyMemory,
      onKeyEvent: (event) => events.push(event),
    });
    return { ring, events };
  }

  it('gives the keys in order, refused ones last', () => {
    const { ring } = keyring(['a', 'b', 'c']);
    expect(ring.inOrder('current')).toEqual(['a', 'b', 'c']);
    ring.accept('current', 'b', ['a']);
    expect(ring.inOrder('current')).toEqual(['b', 'c', 'a']);
    ring.accept('current', 'a', ['b', 'c']);
    expect(ring.inOrder('current')).toEqual(['a', 'b', 'c']);
  });

  it('reports a replacement key once, and the first one never', () => {
    const { ring, events } = keyring(['a', 'b']);
    ring.accept('current', 'a', []);
    for (let times = 0; times < 3; times += 1) ring.accept('current', 'b', ['a']);
    expect(events).toEqual([{ name: 'credentials.accepted', credential: 'apiKey', key: 2 }]);
  });

  it('reports the same key again after a refusal of one before it', () => {
    const keys = ['old'];
    const { ring, events } = keyring(keys);
    ring.accept('current', 'old', []);
    keys.unshift('mistyped');
    ring.accept('current', 'old', ['mistyped']);
    expect(events).toEqual([{ name: 'credentials.accepted', credential: 'apiKey', key: 2 }]);
  });

  it('lets refused keys in any order wait until one changes or a person asks', () => {
    const keyMemory: KeyMemory = {};
    const { ring } = keyring(['a', 'b'], keyMemory);
    expect(ring.refuse('current', ['b', 'a'], url)).toMatchObject({ code: 'credentials.refused' });
    expect(() => ring.admit(false)).toThrow(expect.objectContaining({ code: 'credentials.refused' }));
    ring.admit(true);
    keyring(['a', 'c'], keyMemory).ring.admit(false);
    keyring(['a'], keyMemory).ring.admit(false);
    const other = keyring(['b', 'a'], keyMemory);
    expect(() => other.ring.admit(false)).toThrow('which is tried again after 2');
    expect(other.events).toMatchObject([{ name: 'credentials.refused', credential: 'apiKey' }]);
  });

  it('stores no key itself, and lists every seen key for redaction', () => {
    const keyMemory: KeyMemory = {};
    const keys = ['s3cret-1', 's3cret-2'];
    const { ring } = keyring(keys, keyMemory);
    ring.accept('current', 's3cret-1', []);
    const error = ring.refuse('current', keys, url);
    keys.pop();
    expect(JSON.stringify([keyMemory, [...(keyMemory.accepted ?? [])]])).not.toContain('s3cret');
    expect(`${error.message} ${error.hint}`).not.toContain('s3cret');
    expect(error.hint).toContain('After a new systemd credential, restart');
    expect(ring.values()).toEqual(['s3cret-1', 's3cret-2']);
  });
});
