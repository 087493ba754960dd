import { describe, expect, it } from 'vitest';

import { failedPass, passOutcome } from '../../../../src/app/tasks/task.ts';
import { PassRequests } from '../../../../src/daemon/control/pass-requests.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { PassReport } from '../../../../src/mirror/pass/pass.ts';
import { passFinished } from '../../../support/builders.ts';

function reportOf(exitCode: PassReport['exitCode'], pulling: number, waiting: number): PassReport {
  return { results: [], summary: passFinished({ pulling, waiting }), exitCode, isAllThatCanBe: true };
}

describe('the outcome', () => {
  it.each([
    [0, 0, 0, 0],
    [0, 1, 0, 1],
    [0, 0, 1, 1],
    [1, 0, 0, 1],
    [70, 1, 0, 70],
  ] as const)(
    'to a pass that ends with %i, with %i and %i pulls to do, is %i',
    (code, pulling, waiting, exitCode) => {
      expect(passOutcome(reportOf(code, pulling, waiting), true)).toMatchObject({ exitCode, failure: null });
    },
  );

  it('of a failed pass is the reason, with its exit code', () => {
    const failure = new MirrorError('credentials.refused', 'refused', { hint: 'Renew it.' });
    expect(failedPass(failure)).toMatchObject({
      exitCode: 3,
      summary: null,
      failure: { code: 'credentials.refused', message: 'refused', hint: 'Renew it.' },
    });
  });
});

describe('requests for a pass', () => {
  const answer = passOutcome(reportOf(0, 0, 0), true);
  const failed = failedPass(new MirrorError('service.timeout', 'late'));

  it('are all answered by one pass', async () => {
    const requests = new PassRequests();
    const asked = [requests.add(['a/main']), requests.add(['b/main'])];
    const taken = requests.take();
    expect([taken.isAsked, taken.retries]).toEqual([true, new Set(['a/main', 'b/main'])]);
    expect(requests.take()).toMatchObject({ isAsked: false, retries: new Set() });
    taken.answer(answer);
    expect(await Promise.all(asked)).toEqual([answer, answer]);
  });

  it('that arrive during a pass wait for the next one', async () => {
    const requests = new PassRequests();
    const [first] = [requests.add(null), requests.take().answer(answer)];
    const second = requests.add(null);
    expect(await first).toEqual(answer);
    requests.take().answer(failed);
    expect(await second).toEqual(failed);
  });

  it('for some targets are included in a request for all', () => {
    const requests = new PassRequests();
    void requests.add(['a/main']);
    void requests.add(null);
    void requests.add(['b/main']);
    expect(requests.take().retries).toBe('all');
  });

  it('retry refused keys once, but not in every later pass', () => {
    const requests = new PassRequests();
    void requests.add(null);
    const failure = new MirrorError('credentials.refused', 'refused');
    requests.take().answer(failedPass(failure));
    expect(requests.take()).toMatchObject({ isAsked: false, retries: new Set() });
  });

  it('retry their targets in the pass after a failed one', () => {
    const requests = new PassRequests();
    void requests.add(['a/main']);
    requests.take().answer(failed);
    const next = requests.take();
    expect([next.isAsked, next.retries]).toEqual([true, new Set(['a/main'])]);
    next.answer(failed);
    requests.take().answer(answer);
    expect(requests.take().retries).toEqual(new Set());
  });
});
