import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { PullAction } from '../../../../src/mirror/plan/actions.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { inFairOrder, PullQueue, type QueuedPull, type Waiting } from '../../../../src/mirror/pass/queue.ts';
import type { PassService } from '../../../../src/mirror/upstream/client.ts';
import { listing, planInput, row } from '../../../support/builders.ts';

const SLOW_AFTER_MS = 60_000;

function aService(): PassService {
  const never = (): never => {
    throw new Error('nobody asks');
  };
  return { poll: never, pollAgain: never, download: never, downloadFile: never, exists: never };
}

const SERVICE = aService();

function actionOf(name: string): PullAction {
  const [pull] = makePlan(planInput({ listing: listing({ workbooks: [row()] }) }));
  if (pull?.kind !== 'pull') throw new Error('no pull');
  const [repositoryId = '', branch = ''] = name.split('/');
  return { ...pull, target: { repositoryId, branch }, path: name };
}

/** Pulls that a test ends. */
class Bench {
  readonly queue: PullQueue;
  readonly begun: string[] = [];
  readonly slow: string[] = [];
  readonly slowEnded: string[] = [];
  private readonly hands = new Map<string, PromiseWithResolvers<void>>();
  /** Lets pulls publish, by their names. */
  readonly toPublish = new Map<string, () => void>();
  /** The results that passes got, one after the other. */
  readonly results: (readonly string[])[] = [];

  constructor(outlastsPasses: boolean) {
    this.queue = new PullQueue(outlastsPasses, (event) => {
      if (event.name === 'target.slow') this.slow.push(event.target);
      if (event.name === 'target.slow_ended') this.slowEnded.push(`${event.target}: ${event.result}`);
    });
  }

  pull(name: string, service = SERVICE): QueuedPull {
    const action = actionOf(name);
    return {
      action,
      service,
      waitingSinceMs: 0,
      sizeBytes: null,
      run: async ({ signal, toPublish }) => {
        const hand = Promise.withResolvers<void>();
        this.toPublish.set(name, () => void toPublish(signal));
        this.begun.push(name);
        this.hands.set(name, hand);
        const abandoned = new MirrorError('pass.abandoned', `${name} was called off`);
        signal.addEventListener('abort', () => hand.reject(abandoned));
        await hand.promise;
        return { action, outcome: { kind: 'kept' }, downloadedBytes: 0, changedFiles: 0 };
      },
    };
  }

  /** Runs pulls, and says when the pass that waits for them goes on. */
  run(names: readonly string[], concurrency = 2, service = SERVICE): { readonly state: () => string } {
    let state = 'waits';
    void this.queue
      .run(
        names.map((name) => this.pull(name, service)),
        { concurrency, slowAfterMs: SLOW_AFTER_MS },
      )
      .then(
        (results) => {
          state = 'goes on';
          return this.results.push(results.map(({ action }) => action.path));
        },
        (error: unknown) => (state = String(error)),
      );
    return { state: () => state };
  }

  async end(name: string, error?: Error): Promise<void> {
    const hand = this.hands.get(name);
    if (error === undefined) hand?.resolve();
    else hand?.reject(error);
    await settled();
  }

  get running(): string[] {
    return [...this.queue.running().values()].map(
      ({ action, isSlow }) => `${action.path}${isSlow ? ' slowly' : ''}`,
    );
  }
}

/** Lets everything run that waits only for its turn. */
async function settled(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

async function timePasses(ms = SLOW_AFTER_MS): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

const REFUSED = new MirrorError('credentials.refused', 'No.');

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
});

describe('the queue of pulls', () => {
  it('gives the slot of a slow pull to the next one, and waits for all if it ends with the pass', async () => {
    const bench = new Bench(false);
    const { state } = bench.run(['a/1', 'b/1', 'c/1'], 1);
    await timePasses(SLOW_AFTER_MS - 1);
    expect([bench.begun, bench.slow]).toEqual([['a/1'], []]);
    await timePasses(1);
    expect([bench.begun, bench.slow]).toEqual([['a/1', 'b/1'], ['a/1']]);
    await bench.end('b/1');
    await bench.end('c/1');
    expect([state(), bench.running]).toEqual(['waits', ['a/1 slowly']]);
    await bench.end('a/1');
    expect(state()).toBe('goes on');
  });

  it('gives the slot of a pull that publishes to the next one, and waits for it all the same', async () => {
    const bench = new Bench(true);
    const { state } = bench.run(['a/1', 'b/1', 'c/1', 'd/1']);
    bench.toPublish.get('a/1')?.();
    await settled();
    expect(bench.begun).toEqual(['a/1', 'b/1', 'c/1']);
    for (const name of ['b/1', 'c/1']) await bench.end(name);
    await bench.end('d/1');
    expect(state()).toBe('waits');
    await bench.end('a/1');
    expect(state()).toBe('goes on');
    expect(bench.results[0]?.toSorted()).toEqual(['a/1', 'b/1', 'c/1', 'd/1']);
  });

  it('limits concurrent publishes, and the next one keeps its slot until one has ended', async () => {
    const bench = new Bench(false);
    const names = Array.from({ length: 40 }, (_, index) => `r${index}/1`);
    bench.run(names, 1);
    for (const name of names) {
      bench.toPublish.get(name)?.();
      await settled();
    }
    expect(bench.running).toHaveLength(33);
    await bench.end('r5/1');
    expect(bench.running.slice(-2)).toEqual(['r32/1', 'r33/1']);
    for (const name of names) await bench.end(name);
    expect(bench.begun).toEqual(names);
  });

  it('neither takes a slot from a slow publish nor adds one for it', async () => {
    const bench = new Bench(true);
    const { state } = bench.run(['a/1', 'b/1'], 1);
    bench.toPublish.get('a/1')?.();
    await settled();
    await timePasses();
    expect(bench.running).toEqual(['a/1 slowly', 'b/1 slowly']);
    expect(state()).toBe('goes on');
    for (const name of ['a/1', 'b/1']) await bench.end(name);
  });

  it('starts no more pulls after the first failure, and throws it when the rest has ended', async () => {
    const bench = new Bench(false);
    const { state } = bench.run(['a/1', 'b/1', 'c/1']);
    await bench.end('a/1', REFUSED);
    expect(state()).toBe('waits');
    await bench.end('b/1', new Error('second'));
    expect([state(), bench.begun]).toEqual([String(REFUSED), ['a/1', 'b/1']]);
    expect(bench.run([]).state()).toBe('waits');
    await settled();
  });

  it('does each pull once, never too many at a time, for any slow parts', async () => {
    const name = fc
      .tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(30))
      .map(([id, branch]) => `${id}/${branch}`);
    const property = fc.asyncProperty(
      fc.uniqueArray(name, { maxLength: 25, size: 'max' }),
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.nat(100), { maxLength: 80, size: 'max' }),
      fc.boolean(),
      async (wanted, concurrency, choices, outlastsPasses) => {
        const bench = new Bench(outlastsPasses);
        const { state } = bench.run(wanted, concurrency);
        const publishing = new Set<string>();
        const bounded = (): void => {
          const withSlots = bench.running.filter((each) => !publishing.has(each.replace(' slowly', '')));
          const prompt = withSlots.filter((each) => !each.endsWith('slowly'));
          expect(withSlots.length).toBeLessThanOrEqual(4 * concurrency);
          expect(prompt.length).toBeLessThanOrEqual(concurrency);
        };
        const publish = async (pull: string): Promise<void> => {
          if (pull === '' || publishing.has(pull)) return;
          publishing.add(pull);
          bench.toPublish.get(pull)?.();
          await settled();
        };
        for (const choice of choices) {
          bounded();
          const chosen = bench.running[choice % Math.max(1, bench.running.length)] ?? '';
          const pull = chosen.replace(' slowly', '');
          if (choice % 4 === 0) await timePasses();
          else if (choice % 4 === 1) await publish(pull);
          else await bench.end(pull);
        }
        while (bench.running.length > 0) {
          bounded();
          await bench.end(bench.running[0]?.replace(' slowly', '') ?? '');
        }
        await settled();
        expect(bench.begun.toSorted()).toEqual(wanted.toSorted());
        expect(state()).toBe('goes on');
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });
});

describe('the queue across passes', () => {
  it('makes a pass wait only for prompt pulls, and gives it only their results', async () => {
    const bench = new Bench(true);
    const first = bench.run(['a/1', 'b/1']);
    await bench.end('b/1');
    expect(first.state()).toBe('waits');
    await timePasses();
    expect([first.state(), bench.running]).toEqual(['goes on', ['a/1 slowly']]);
    const next = bench.run(['c/1']);
    await bench.end('c/1');
    expect([next.state(), bench.running]).toEqual(['goes on', ['a/1 slowly']]);
    await bench.end('a/1');
    expect([bench.running, bench.results]).toEqual([[], [['b/1'], ['c/1']]]);
  });

  it('starts pulls without a slot between passes, and no pass waits for them before', async () => {
    const bench = new Bench(true);
    const { state } = bench.run(['a/1', 'b/1', 'c/1', 'd/1', 'e/1'], 1);
    for (let times = 0; times < 4; times += 1) await timePasses();
    expect([state(), bench.begun.length]).toEqual(['goes on', 4]);
    await bench.end('b/1');
    expect(bench.running).toEqual(['a/1 slowly', 'c/1 slowly', 'd/1 slowly', 'e/1']);
    const next = bench.run([]);
    await settled();
    expect(next.state()).toBe('waits');
    await timePasses();
    expect(next.state()).toBe('goes on');
    await Promise.all(['a/1', 'c/1', 'd/1', 'e/1'].map((name) => bench.end(name)));
  });

  it('cancels the pulls from a service that it leaves, and starts no more of these, even for a running pass', async () => {
    const bench = new Bench(true);
    const former = aService();
    bench.run(['a/1', 'b/1', 'c/1', 'd/1', 'e/1'], 1, former);
    for (let times = 0; times < 4; times += 1) await timePasses();
    const other = aService();
    await bench.queue.leave(other);
    expect([bench.running.length, bench.queue.isUsing(former)]).toEqual([4, true]);
    await bench.queue.leave(former);
    expect([bench.begun.length, bench.running, bench.queue.isUsing(former)]).toEqual([4, [], false]);
    const { state } = bench.run(['f/1'], 1, former);
    await settled();
    expect([state(), bench.begun.length]).toEqual(['goes on', 4]);
  });

  it('throws a defect of a slow pull in the next pass, and only there', async () => {
    const bench = new Bench(true);
    bench.run(['a/1']);
    await timePasses();
    await bench.end('a/1', new TypeError('defect'));
    const next = bench.run(['b/1']);
    await settled();
    expect([next.state(), bench.begun]).toEqual(['TypeError: defect', ['a/1']]);
    const after = bench.run([]);
    await settled();
    expect(after.state()).toBe('goes on');
  });

  it('cancels pulls, waits for their ends, and reports none of them', async () => {
    const bench = new Bench(true);
    const { state } = bench.run(['a/1', 'b/1']);
    await timePasses();
    expect(state()).toBe('goes on');
    await bench.queue.callOff(({ action }) => action.path === 'a/1');
    expect(bench.running).toEqual(['b/1 slowly']);
    expect(bench.slowEnded).toEqual(['a/1: called off']);
    await bench.queue.callOff(() => true);
    expect(bench.running).toEqual([]);
    const next = bench.run([]);
    await settled();
    expect(next.state()).toBe('goes on');
  });

  it('is drained when all pulls have ended, and starts no more', async () => {
    const bench = new Bench(true);
    bench.run(['a/1', 'b/1'], 1);
    let isDrained = false;
    void bench.queue.drain().then(() => (isDrained = true));
    await settled();
    expect(isDrained).toBe(false);
    await bench.end('a/1', new MirrorError('pass.abandoned', 'Stopped.'));
    expect([isDrained, bench.begun]).toEqual([true, ['a/1']]);
  });
});

interface Ordered extends Waiting {
  readonly name: number;
}

const somePulls = fc
  .array(
    fc.record({
      action: fc.record({ target: fc.record({ repositoryId: fc.constantFrom('a', 'b', 'c', 'd', 'e') }) }),
      waitingSinceMs: fc.nat(3),
      sizeBytes: fc.option(fc.nat(3)),
    }),
    { maxLength: 60 },
  )
  .map((pulls) => pulls.map((pull, name): Ordered => ({ ...pull, name })));

const names = (pulls: readonly Ordered[]): number[] => pulls.map(({ name }) => name);

describe('the order of pulls', () => {
  const pull = (name: number, repositoryId: string, waitingSinceMs = 0, sizeBytes?: number): Ordered => ({
    name,
    action: { target: { repositoryId } },
    waitingSinceMs,
    sizeBytes: sizeBytes ?? null,
  });

  it('puts the longest waiting first, in its repository and among repositories', () => {
    const pulls = [pull(0, 'a', 10), pull(1, 'a', 30), pull(2, 'b', 20), pull(3, 'b', 5)];
    expect(names(inFairOrder(pulls))).toEqual([3, 0, 2, 1]);
  });

  it('puts known small pulls first among equal waits, and keeps the order otherwise', () => {
    const pulls = [pull(0, 'a'), pull(1, 'b', 0, 9), pull(2, 'c', 0, 3), pull(3, 'd'), pull(4, 'e', 1, 1)];
    expect(names(inFairOrder(pulls))).toEqual([2, 1, 0, 3, 4]);
  });

  it('gives a repository its next turn only after all others with pulls left', () => {
    fc.assert(
      fc.property(somePulls, (pulls) => {
        const had = new Map<string, number>();
        const idOf = ({ action }: Ordered): string => action.target.repositoryId;
        const total = (id: string): number => pulls.filter((each) => idOf(each) === id).length;
        for (const repositoryId of inFairOrder(pulls).map(idOf)) {
          const mine = had.get(repositoryId) ?? 0;
          for (const other of new Set(pulls.map(idOf))) {
            expect(had.get(other) ?? 0).toBeGreaterThanOrEqual(Math.min(mine, total(other)));
          }
          had.set(repositoryId, mine + 1);
        }
      }),
    );
  });
});
