import { expect, it } from 'vitest';

import { mayColor, mayRedraw } from '../../../../src/lib/process/streams.ts';

it.each([
  [{}, true, true],
  [{}, false, false],
  [{ TERM: 'dumb' }, true, false],
  [{ NO_COLOR: '1' }, true, false],
  [{ NO_COLOR: '' }, true, true],
  [{ FORCE_COLOR: '3', TERM: 'dumb' }, false, true],
  [{ FORCE_COLOR: '' }, false, false],
  [{ FORCE_COLOR: '0' }, true, false],
  [{ FORCE_COLOR: 'false' }, true, false],
  [{ FORCE_COLOR: '1', NO_COLOR: '1' }, true, false],
])('colours under %j on a terminal %j: %j', (env, isTerminal, may) =>
  expect(mayColor(env, isTerminal)).toBe(may),
);

it.each([
  [{ TERM: 'xterm', NO_COLOR: '1' }, true, true],
  [{ TERM: 'dumb' }, true, false],
  [{ FORCE_COLOR: '1' }, false, false],
])('a line that is overwritten under %j on a terminal %j: %j', (env, isTerminal, may) =>
  expect(mayRedraw(env, isTerminal)).toBe(may),
);
