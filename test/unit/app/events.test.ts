import { describe, expect, it } from 'vitest';

import { EVENT_LEVELS } from '../../../src/app/events.ts';

describe('events', () => {
  it.each(Object.entries(EVENT_LEVELS))('%s is as loud as %s', (name, level) => {
    expect(name).toMatch(/^[a-z]+\.[a-z_]+$/);
    expect(['debug', 'info', 'warn', 'error']).toContain(level);
  });

  it('that say that something failed are loud', () => {
    for (const name of ['pass.failed', 'target.failed', 'state.failed'] as const) {
      expect(EVENT_LEVELS[name]).toBe('error');
    }
  });
});
