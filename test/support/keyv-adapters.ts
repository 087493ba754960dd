import * as fc from 'fast-check';
import { Keyv, type KeyvStorageAdapter } from 'keyv';
import * as vitest from 'vitest';

const { describe, expect, it } = vitest;

type Suite = (test: typeof vitest, keyv: typeof Keyv5, store: () => KeyvStorageAdapter) => void;

// The compiler must not read its types, which need those of keyv 5.
const SUITE_PACKAGE: string = '@keyv/test-suite';
const suite = (await import(SUITE_PACKAGE)) as { readonly default: Suite; readonly keyvIteratorTests: Suite };

/** Characters of all kinds, among them U+0000 and halves of surrogate pairs. */
const anyText = (options: fc.StringConstraints): fc.Arbitrary<string> =>
  fc.string({
    ...options,
    unit: fc.oneof(
      fc.constantFrom('\0', '"', '\\', ':', '*', '%', '\n', '\ud800', '\udfff', 'é', 'e\u0301', '😀'),
      fc.integer({ min: 0, max: 0xff_ff }).map((unit) => String.fromCharCode(unit)),
      fc.string({ minLength: 1, maxLength: 1 }),
    ),
  });

/** keyv takes no empty key. */
const anyKey = fc.oneof(
  { arbitrary: anyText({ minLength: 1, maxLength: 20 }), weight: 6 },
  { arbitrary: anyText({ minLength: 2000, maxLength: 10_000, size: 'max' }), weight: 1 },
  // Such as differ at their ends alone.
  { arbitrary: anyText({ maxLength: 2 }).map((end) => 'x'.repeat(1_000_000) + end), weight: 1 },
);

type Open = (namespace: string) => KeyvStorageAdapter;

/** Holds an adapter against keyv's own tests, and against what a map does with keys of every kind and length. */
export function describeAdapter(name: string, open: Open): void {
  describe(`${name} and the tests that keyv has for adapters:`, () => {
    const store = (): KeyvStorageAdapter => Object.assign(open('suite'), { opts: {} });
    suite.default(vitest, Keyv5, store);
    suite.keyvIteratorTests(vitest, Keyv5, store);
  });

  describe(name, () => {
    let rounds = 0;
    const fresh = (): KeyvStorageAdapter => open(`round-${(rounds += 1)}`);

    it('is a map, whatever is done to it, with keys of every kind and length', async () => {
      await fc.assert(
        fc.asyncProperty(steps, (all) => expectMap(fresh(), all)),
        { numRuns: 40 },
      );
    });

    it('gives back what was set, in the order of the keys', async () => {
      const adapter = fresh();
      expect(await adapter.set('a', '1')).toBe(true);
      expect(await adapter.set('a', '2')).toBe(true);
      expect(await adapter.get('a')).toBe('2');
      expect(await adapter.get('b')).toBeUndefined();
      expect(await adapter.getMany(['b', 'a', 'a'])).toEqual([undefined, '2', '2']);
      expect(await adapter.hasMany(['b', 'a'])).toEqual([false, true]);
      expect([await adapter.getMany([]), await adapter.setMany([]), await adapter.deleteMany([])]).toEqual([
        [],
        [],
        [],
      ]);
    });

    it('keeps namespaces apart', async () => {
      const [one, two] = [fresh(), fresh()];
      await one.set('a', '1');
      await two.setMany<unknown>(['a', 'b'].map((key) => ({ key, value: '2' })));
      await one.clear();
      expect(await everything(one)).toEqual([]);
      expect(await two.delete('a')).toBe(true);
      expect(await everything(two)).toEqual([['b', '2']]);
    });

    it('takes more entries than go into one call', async () => {
      const adapter = fresh();
      const entries = Array.from({ length: 2500 }, (_, index): [string, string] => [
        `key ${index}`,
        `${index}`,
      ]);
      await adapter.setMany(entries.map(([key, value]) => ({ key, value })));
      expect(new Map(await everything(adapter))).toEqual(new Map(entries));
      const keys = entries.map(([key]) => key);
      expect(await adapter.getMany(keys)).toEqual(entries.map(([, value]) => value));
      expect(await adapter.deleteMany(keys)).toEqual(keys.map(() => true));
      expect(await everything(adapter)).toEqual([]);
    });

    it('takes values of megabytes', async () => {
      const adapter = fresh();
      const values = ['ä', '😀', 'x'].map((text) => text.repeat(3 * 1024 * 1024));
      await adapter.setMany(values.map((value, index) => ({ key: `${index}`, value })));
      for (const [index, value] of values.entries())
        expect((await adapter.get(`${index}`)) === value).toBe(true);
      expect(await everything(adapter)).toHaveLength(3);
    });

    it('can be changed while it is gone through', async () => {
      const adapter = fresh();
      await adapter.setMany<unknown>(['a', 'b', 'c'].map((key) => ({ key, value: key })));
      const seen: unknown[] = [];
      for await (const [key] of adapter.iterator?.() ?? []) {
        seen.push(key);
        await adapter.delete(String(key));
      }
      expect(new Set(seen)).toEqual(new Set(['a', 'b', 'c']));
      expect(await everything(adapter)).toEqual([]);
    });

    it('takes nothing but texts', async () => {
      const adapter = fresh();
      await expect(adapter.set('a', { no: 'text' })).rejects.toThrow('a value is no text');
      expect(await everything(adapter)).toEqual([]);
    });
  });
}

type Step = readonly ['set', readonly (readonly [string, string])[]] | readonly ['delete', readonly string[]];

const steps = fc.uniqueArray(anyKey, { minLength: 1, maxLength: 5 }).chain((keys) => {
  const key = fc.constantFrom(...keys);
  // As keyv has them: JSON has neither U+0000 nor halves of surrogate pairs.
  const value = anyText({ maxLength: 10 }).map((text) => JSON.stringify({ value: text }));
  const set = fc.tuple(fc.constant('set' as const), fc.array(fc.tuple(key, value), { maxLength: 4 }));
  const remove = fc.tuple(fc.constant('delete' as const), fc.array(key, { maxLength: 4 }));
  return fc.array(fc.oneof<fc.Arbitrary<Step>[]>(set, remove), { maxLength: 6 });
});

async function expectMap(adapter: KeyvStorageAdapter, all: readonly Step[]): Promise<void> {
  const model = new Map<string, string>();
  for (const [what, each] of all) {
    if (what === 'set') {
      await adapter.setMany(each.map(([key, value]) => ({ key, value })));
      for (const [key, value] of each) model.set(key, value);
    } else {
      expect(await adapter.deleteMany([...each])).toEqual(each.map((key) => model.delete(key)));
    }
    const keys = [...model.keys(), 'none'];
    expect(await adapter.getMany(keys)).toEqual(keys.map((key) => model.get(key)));
  }
  expect(new Map(await everything(adapter))).toEqual(model);
}

/** All entries of an adapter. */
async function everything(adapter: KeyvStorageAdapter): Promise<[string, string][]> {
  const found: [string, string][] = [];
  for await (const entry of adapter.iterator?.<string>() ?? []) found.push(entry as [string, string]);
  return found;
}

interface OptionsOf5 {
  readonly serialize?: (value: unknown) => string;
  readonly deserialize?: (text: string) => unknown;
}

/** keyv as its tests speak to it, of which the newest are for keyv 5: what they give adapters is the same. */
class Keyv5 extends Keyv {
  constructor({ serialize, deserialize, ...options }: OptionsOf5 & Record<string, unknown> = {}) {
    const serialization = serialize && deserialize ? { stringify: serialize, parse: deserialize } : undefined;
    super({ ...options, ...(serialization && { serialization }) });
  }

  /** keyv 6 tells of each of several keys. */
  override async delete(key: string): Promise<boolean>;
  override async delete(keys: string[]): Promise<boolean[]>;
  override async delete(keys: string | string[]): Promise<boolean | boolean[]> {
    if (typeof keys === 'string') return super.delete(keys);
    return (await super.deleteMany(keys)).every(Boolean);
  }
}
