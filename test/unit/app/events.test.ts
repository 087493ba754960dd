import { expect, it } from 'vitest';

import { EVENTS, levelOf } from '../../../src/app/events.ts';

it.each(Object.keys(EVENTS))('%s is a name in two parts', (name) => {
  expect(name).toMatch(/^[a-z]+\.[a-z_]+$/);
});

it('events that say that something failed are loud', () => {
  for (const name of ['pass.failed', 'target.failed', 'state.failed'] as const)
    expect(levelOf({ name })).toBe('error');
});
