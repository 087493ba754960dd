import { describe, expect, it } from 'vitest';

import { contactNotice, isOld, leastGapMs, nextPollMs } from '../../../../src/daemon/page/contact.js';
import { NOW_MS } from '../../../support/builders.ts';

const stateOf = (
  contact: 'gone' | 'mute' | 'paused' | 'live' | 'polling' | 'connecting',
  problem: string | null = null,
) => ({
  contact,
  problem,
  sinceMs: NOW_MS,
});

describe('how the page stands with the daemon', () => {
  it('is nothing to speak of while it answers', () => {
    for (const contact of ['live', 'polling', 'connecting'] as const) {
      expect(contactNotice(stateOf(contact), NOW_MS, NOW_MS)).toBeNull();
      expect(isOld(contact)).toBe(false);
    }
  });

  it('is told with the age of what is shown when it does not', () => {
    expect(contactNotice(stateOf('gone'), NOW_MS - 65_000, NOW_MS)).toEqual({
      title: 'The daemon does not answer.',
      text: 'What is shown is 65 s old.',
    });
    expect(contactNotice(stateOf('gone'), null, NOW_MS)?.text).toBe(
      'It has not answered since this page was loaded.',
    );
    expect(contactNotice(stateOf('mute', 'It says: no.'), NOW_MS - 5000, NOW_MS)?.text).toBe(
      'It says: no. What is shown is 5 s old.',
    );
    expect(contactNotice(stateOf('paused'), NOW_MS - 5000, NOW_MS)?.title).toBe('Paused.');
  });

  it('has it asked more rarely where it fails, is hidden, or tells by itself', () => {
    const facts = { isStreaming: false, isHidden: false, failures: 0 };
    const polled = nextPollMs(facts);
    expect(nextPollMs({ ...facts, isStreaming: true })).toBeGreaterThan(polled);
    expect(nextPollMs({ ...facts, isHidden: true })).toBeGreaterThan(polled);
    const retries = [1, 2, 3, 4, 50, 5000].map((failures) => nextPollMs({ ...facts, failures }));
    expect(retries).toEqual([...retries].sort((a, b) => a - b));
    expect(retries.at(-1)).toBe(15_000);
  });

  it('leaves the longer between two answers the more each costs', () => {
    expect([0, 100, 500, 60_000].map(leastGapMs)).toEqual([1000, 1000, 2000, 5000]);
  });
});
