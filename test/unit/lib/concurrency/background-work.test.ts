import { setImmediate as turn } from 'node:timers/promises';

import { expect, it } from 'vitest';

import { createBackgroundWork, type Ending } from '../../../../src/lib/concurrency/background-work.ts';

/** Work whose rounds a test ends. */
function workshop() {
  const rounds: PromiseWithResolvers<void>[] = [];
  const errors: unknown[] = [];
  const endings: Ending[] = [];
  const work = createBackgroundWork(
    (ending) => {
      endings.push(ending);
      const round = Promise.withResolvers<void>();
      rounds.push(round);
      return round.promise;
    },
    (error) => errors.push(error),
  );
  return { work, rounds, errors, endings };
}

it('work requested during a run is done once more, however often it was requested', async () => {
  const { work, rounds } = workshop();
  work.wake();
  work.wake();
  work.wake();
  expect(rounds).toHaveLength(1);
  rounds[0]?.resolve();
  await turn();
  expect(rounds).toHaveLength(2);
  rounds[1]?.resolve();
  await work.idle();
  expect([rounds.length, work.isBusy()]).toEqual([2, false]);
});

it('work that requests itself as it begins never runs twice at once', async () => {
  let running = 0;
  let most = 0;
  let rounds = 0;
  const work = createBackgroundWork(
    async () => {
      rounds += 1;
      running += 1;
      most = Math.max(most, running);
      if (rounds === 1) work.wake();
      await turn();
      running -= 1;
    },
    () => {},
  );
  work.wake();
  await work.idle();
  expect([rounds, most]).toEqual([2, 1]);
});

it('work that fails is reported, and runs again on request', async () => {
  const { work, rounds, errors } = workshop();
  work.wake();
  rounds[0]?.reject(new Error('broken'));
  await work.idle();
  expect(errors).toEqual([new Error('broken')]);
  work.wake();
  expect(rounds).toHaveLength(2);
});

it('closed work has its time to end, is then stopped, and never starts again', async () => {
  const { work, rounds, endings } = workshop();
  work.wake();
  work.wake();
  const closed = work.close(20);
  expect([endings[0]?.closing.aborted, endings[0]?.stop.aborted]).toEqual([true, false]);
  endings[0]?.stop.addEventListener('abort', () => rounds[0]?.resolve());
  await closed;
  work.wake();
  expect(rounds).toHaveLength(1);
});

it('work closed without delay is stopped without delay', async () => {
  const { work, rounds, endings } = workshop();
  work.wake();
  const closed = work.close(0);
  expect(endings[0]?.stop.aborted).toBe(true);
  rounds[0]?.resolve();
  await closed;
});
