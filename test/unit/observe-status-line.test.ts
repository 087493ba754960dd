import { expect, it } from 'vitest';

import { initialLive, nextLive } from '../../src/model/live.ts';
import { describeLive } from '../../src/observe/status-line.ts';

it('a status line names why new settings were refused, in one line', () => {
  const live = nextLive(
    initialLive(0),
    { name: 'settings.refused', code: 'settings.invalid', message: 'Two:\n  one\n  two', hint: null },
    0,
  );
  expect(describeLive(live)).toBe('no pass yet; new settings refused: Two: one two');
});
