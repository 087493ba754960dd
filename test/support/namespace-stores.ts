import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { NamespaceStore } from '../../src/mirror/state/database.ts';

const ascii = fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit));

const anyKey = fc.oneof(
  { arbitrary: fc.string({ unit: ascii, minLength: 1, maxLength: 20 }), weight: 6 },
  { arbitrary: fc.string({ unit: ascii, minLength: 2000, maxLength: 10_000, size: 'max' }), weight: 1 },
);

/** Characters of all kinds, among them U+0000 and halves of surrogate pairs. */
const anyValue = fc
  .string({
    unit: fc.integer({ min: 0, max: 0xff_ff }).map((unit) => String.fromCharCode(unit)),
    maxLength: 10,
  })
  // As keyv has them: JSON has neither.
  .map((value) => JSON.stringify({ value }));

type Open = (namespace: string) => NamespaceStore;

/** Compares the store of a database with a map. */
export function describeStore(name: string, open: Open): void {
  describe(name, () => {
    let rounds = 0;
    const fresh = (): NamespaceStore => open(`round-${(rounds += 1)}`);

    it('is a map under any operations, with keys of every length, and all kinds of characters', async () => {
      await fc.assert(
        fc.asyncProperty(steps, (all) => expectMap(fresh(), all)),
        { numRuns: 40 },
      );
    });

    it('keeps namespaces apart', async () => {
      const [one, two] = [fresh(), fresh()];
      await one.set('a', '1');
      await two.setMany(['a', 'b'].map((key) => ({ key, value: '2' })));
      await one.clear();
      expect(await everything(one)).toEqual([]);
      await two.delete('a');
      expect(await everything(two)).toEqual([['b', '2']]);
    });

    it('takes more entries than go into one call', async () => {
      const store = fresh();
      const entries = Array.from({ length: 2500 }, (_, index): [string, string] => [
        `key ${index}`,
        `${index}`,
      ]);
      await store.setMany(entries.map(([key, value]) => ({ key, value })));
      expect(new Map(await everything(store))).toEqual(new Map(entries));
      const keys = entries.map(([key]) => key);
      await store.deleteMany(keys);
      expect(await everything(store)).toEqual([]);
    });

    it('takes values of megabytes', async () => {
      const store = fresh();
      const values = ['ä', '😀', 'x'].map((text) => text.repeat(3 * 1024 * 1024));
      await store.setMany(values.map((value, index) => ({ key: `${index}`, value })));
      for (const [index, value] of values.entries())
        expect((await store.get(`${index}`)) === value).toBe(true);
      expect(await everything(store)).toHaveLength(3);
    });

    it('can be changed while it is gone through', async () => {
      const store = fresh();
      await store.setMany(['a', 'b', 'c'].map((key) => ({ key, value: key })));
      const seen: string[] = [];
      for await (const [key] of store.iterator()) {
        seen.push(key);
        await store.delete(key);
      }
      expect(new Set(seen)).toEqual(new Set(['a', 'b', 'c']));
      expect(await everything(store)).toEqual([]);
    });
  });
}

type Step = readonly ['set', readonly (readonly [string, string])[]] | readonly ['delete', readonly string[]];

const steps = fc.uniqueArray(anyKey, { minLength: 1, maxLength: 5 }).chain((keys) => {
  const key = fc.constantFrom(...keys);
  const set = fc.tuple(
    fc.constant('set' as const),
    fc.uniqueArray(fc.tuple(key, anyValue), { maxLength: 4, selector: ([each]) => each }),
  );
  const remove = fc.tuple(fc.constant('delete' as const), fc.array(key, { maxLength: 4 }));
  return fc.array(fc.oneof<fc.Arbitrary<Step>[]>(set, remove), { maxLength: 6 });
});

async function expectMap(store: NamespaceStore, all: readonly Step[]): Promise<void> {
  const model = new Map<string, string>();
  for (const [what, each] of all) {
    if (what === 'set') {
      await store.setMany(each.map(([key, value]) => ({ key, value })));
      for (const [key, value] of each) model.set(key, value);
    } else {
      await store.deleteMany(each);
      for (const key of each) model.delete(key);
    }
    for (const key of [...model.keys(), 'none']) expect(await store.get(key)).toBe(model.get(key));
  }
  expect(new Map(await everything(store))).toEqual(model);
}

/** All entries of a store. */
export async function everything(store: NamespaceStore): Promise<[string, string][]> {
  const found: [string, string][] = [];
  for await (const [key, value] of store.iterator()) found.push([key, value]);
  return found;
}
