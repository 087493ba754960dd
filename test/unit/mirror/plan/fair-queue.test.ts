import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  createFairQueue,
  inFairOrder,
  mayBegin,
  type Slots,
  slotsFor,
  type Waiting,
} from '../../../../src/mirror/plan/fair-queue.ts';

interface Pull extends Waiting {
  readonly name: number;
}

const somePulls = fc
  .array(
    fc.record({
      repositoryId: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      waitingSinceMs: fc.nat(3),
      sizeBytes: fc.option(fc.nat(3)),
    }),
    { maxLength: 60 },
  )
  .map((pulls) => pulls.map((pull, name): Pull => ({ ...pull, name })));

/** Which of those that go on does something next, and whether it turns slow or ends. */
const someSteps = fc.array(fc.record({ which: fc.nat(63), isSlow: fc.boolean() }), { maxLength: 400 });

interface Running {
  readonly pull: Pull;
  isSlow: boolean;
}

/** Lets pulls begin, turn slow and end, and tells of every beginning what went on just before it. */
function play(
  pulls: readonly Pull[],
  slots: Slots,
  steps: readonly { readonly which: number; readonly isSlow: boolean }[],
  onBegin: (pull: Pull, before: readonly Running[]) => void = () => {},
): {
  readonly begun: readonly Pull[];
  readonly running: readonly Running[];
  readonly waiting: readonly Pull[];
} {
  const turns = createFairQueue(pulls);
  const begun: Pull[] = [];
  let running: Running[] = [];
  const advance = (): void => {
    for (;;) {
      const inHand = {
        all: running.length,
        prompt: running.filter(({ isSlow }) => !isSlow).length,
        isOf: (id: string) => running.some(({ pull }) => pull.repositoryId === id),
      };
      const pull = turns.take(inHand, slots);
      if (pull === null) return;
      onBegin(pull, [...running]);
      begun.push(pull);
      running.push({ pull, isSlow: false });
    }
  };
  advance();
  for (const { which, isSlow } of steps) {
    const chosen = running[which % Math.max(1, running.length)];
    if (chosen === undefined) break;
    if (isSlow) chosen.isSlow = true;
    else running = running.filter((each) => each !== chosen);
    advance();
  }
  expect(turns.isEmpty()).toBe(turns.waiting().length === 0);
  return { begun, running, waiting: turns.waiting() };
}

/** Every one that goes on ends, again and again. */
const ENDS = Array.from({ length: 200 }, () => ({ which: 0, isSlow: false }));

const names = (pulls: readonly Pull[]): number[] => pulls.map(({ name }) => name);
const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

describe('the order of pulls', () => {
  const pull = (
    name: number,
    repositoryId: string,
    waitingSinceMs = 0,
    sizeBytes: number | null = null,
  ): Pull => ({
    name,
    repositoryId,
    waitingSinceMs,
    sizeBytes,
  });

  it('lets repositories take turns', () => {
    const many = Array.from({ length: 5 }, (_, index) => pull(index, 'many'));
    expect(names(inFairOrder([...many, pull(10, 'small'), pull(11, 'other')]))).toEqual([
      0, 10, 11, 1, 2, 3, 4,
    ]);
  });

  it('lets who waits longest come first, in its repository and among repositories', () => {
    const pulls = [pull(0, 'a', 30), pull(1, 'a', 10), pull(2, 'b', 20), pull(3, 'b', 5)];
    expect(names(inFairOrder(pulls))).toEqual([3, 1, 2, 0]);
  });

  it('puts what is known to be small first of what waits as long, and keeps the order otherwise', () => {
    const pulls = [pull(0, 'a'), pull(1, 'b', 0, 9), pull(2, 'c', 0, 3), pull(3, 'd'), pull(4, 'e', 1, 1)];
    expect(names(inFairOrder(pulls))).toEqual([2, 1, 0, 3, 4]);
  });

  it('loses none', () => {
    fc.assert(
      fc.property(somePulls, (pulls) => {
        expect(sorted(names(inFairOrder(pulls)))).toEqual(names(pulls));
      }),
    );
  });

  it('gives no repository its next turn before all others that have one left had theirs', () => {
    fc.assert(
      fc.property(somePulls, (pulls) => {
        const had = new Map<string, number>();
        const total = (id: string): number => pulls.filter(({ repositoryId }) => repositoryId === id).length;
        for (const { repositoryId } of inFairOrder(pulls)) {
          const mine = had.get(repositoryId) ?? 0;
          for (const other of new Set(pulls.map((each) => each.repositoryId))) {
            expect(had.get(other) ?? 0).toBeGreaterThanOrEqual(Math.min(mine, total(other)));
          }
          had.set(repositoryId, mine + 1);
        }
      }),
    );
  });
});

describe('the slots', () => {
  it('follow from how many prompt pulls may go on', () => {
    expect(slotsFor(4)).toEqual({ prompt: 4, all: 16, shared: 12 });
    expect(slotsFor(1)).toEqual({ prompt: 1, all: 4, shared: 3 });
  });

  it.each([
    ['with room for all', 0, 0, false, true],
    ['with all prompt slots taken', 4, 4, false, false],
    ['with all slots taken', 3, 16, false, false],
    ['with the shared slots taken, and none of its own', 0, 12, false, true],
    ['with the shared slots taken, and one of its own', 0, 12, true, false],
    ['with one shared place free', 0, 11, true, true],
  ])('are open or not %s', (_what, prompt, all, isOwn, isOpen) => {
    expect(mayBegin('a', { prompt, all, isOf: () => isOwn }, slotsFor(4))).toBe(isOpen);
  });

  it('are never more than there are, and the last ones are for repositories that have none', () => {
    fc.assert(
      fc.property(somePulls, fc.integer({ min: 1, max: 5 }), someSteps, (pulls, concurrency, steps) => {
        const slots = slotsFor(concurrency);
        play(pulls, slots, steps, ({ repositoryId }, before) => {
          expect(before.length).toBeLessThan(slots.all);
          expect(before.filter(({ isSlow }) => !isSlow).length).toBeLessThan(slots.prompt);
          const isItsFirst = before.every(({ pull }) => pull.repositoryId !== repositoryId);
          expect(before.length < slots.shared || isItsFirst).toBe(true);
        });
      }),
    );
  });

  it('are not left free while something waits that may have them', () => {
    fc.assert(
      fc.property(somePulls, fc.integer({ min: 1, max: 5 }), someSteps, (pulls, concurrency, steps) => {
        const slots = slotsFor(concurrency);
        const { running, waiting } = play(pulls, slots, steps);
        const inHand = {
          all: running.length,
          prompt: running.filter(({ isSlow }) => !isSlow).length,
          isOf: (id: string) => running.some(({ pull }) => pull.repositoryId === id),
        };
        expect(waiting.filter(({ repositoryId }) => mayBegin(repositoryId, inHand, slots))).toEqual([]);
      }),
    );
  });

  it('come to everybody once, as what goes on ends', () => {
    fc.assert(
      fc.property(somePulls, fc.integer({ min: 1, max: 5 }), someSteps, (pulls, concurrency, steps) => {
        const { begun, waiting, running } = play(pulls, slotsFor(concurrency), [...steps, ...ENDS]);
        expect(sorted(names(begun))).toEqual(names(pulls));
        expect([waiting, running]).toEqual([[], []]);
      }),
    );
  });

  it('come in their turns while all pulls are prompt, and within a repository always', () => {
    fc.assert(
      fc.property(somePulls, fc.integer({ min: 1, max: 5 }), someSteps, (pulls, concurrency, steps) => {
        const order = names(inFairOrder(pulls));
        expect(names(play(pulls, slotsFor(concurrency), ENDS).begun)).toEqual(order);
        const { begun } = play(pulls, slotsFor(concurrency), [...steps, ...ENDS]);
        for (const id of new Set(pulls.map(({ repositoryId }) => repositoryId))) {
          const own = new Set(names(pulls.filter(({ repositoryId }) => repositoryId === id)));
          expect(names(begun).filter((name) => own.has(name))).toEqual(order.filter((name) => own.has(name)));
        }
      }),
    );
  });

  it('are found as fast among many that wait as among few', () => {
    const pulls = Array.from({ length: 200_000 }, (_, name): Pull => {
      return {
        name,
        repositoryId: name % 2 === 0 ? 'many' : `of ${name % 1000}`,
        waitingSinceMs: 0,
        sizeBytes: null,
      };
    });
    const turns = createFairQueue(pulls);
    // All slots that one repository may have are taken, and by that one.
    const inHand = { all: 12, prompt: 0, isOf: (id: string) => id === 'many' };
    for (let taken = 0; taken < 100_000; taken += 1) {
      expect(turns.take(inHand, slotsFor(4))?.repositoryId).not.toBe('many');
    }
    expect(turns.take(inHand, slotsFor(4))).toBeNull();
    expect(turns.waiting()).toHaveLength(100_000);
    expect(turns.isEmpty()).toBe(false);
    expect(turns.take({ ...inHand, all: 0 }, slotsFor(4))?.name).toBe(0);
  });
});
