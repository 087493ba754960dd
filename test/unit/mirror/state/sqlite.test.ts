import * as fc from 'fast-check';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createTable, SqliteAdapter } from '../../../../src/mirror/state/sqlite-adapter.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let folder = '';
let database: DatabaseSync;

beforeEach(async () => {
  folder = await temporaryFolder();
  database = new DatabaseSync(join(folder, 'state.db'));
  createTable(database);
});

afterEach(() => {
  vi.useRealTimers();
  database.close();
});

async function everything(adapter: SqliteAdapter): Promise<unknown[][]> {
  const found: unknown[][] = [];
  for await (const entry of adapter.iterator<string>()) found.push(entry);
  return found;
}

const ODD_KEYS = [
  ' ',
  'a b',
  "'; DROP TABLE kv; --",
  '%',
  '_',
  '*',
  'é',
  'e\u0301',
  '😀',
  '"quoted"',
  'back\\slash',
  'new\nline',
  '1',
  '01',
  '1.0',
  'null',
  '[1]',
  'x'.repeat(10_000),
];

describe('the SQLite adapter', () => {
  it('gives back what was set, and nothing else', async () => {
    const adapter = new SqliteAdapter(database, 'ns');
    expect(await adapter.set('a', 'one')).toBe(true);
    await adapter.set('a', 'two');
    expect(await adapter.get('a')).toBe('two');
    expect(await adapter.get('b')).toBeUndefined();
    expect(await adapter.getMany(['b', 'a', 'a'])).toEqual([undefined, 'two', 'two']);
    expect(await adapter.getMany([])).toEqual([]);
    expect([await adapter.has('a'), await adapter.has('b')]).toEqual([true, false]);
    expect(await adapter.hasMany(['b', 'a'])).toEqual([false, true]);
  });

  it('takes odd keys for what they are', async () => {
    const adapter = new SqliteAdapter(database, 'ns');
    await adapter.setMany(ODD_KEYS.map((key, index) => ({ key, value: `value ${index}` })));
    expect(await adapter.getMany(ODD_KEYS)).toEqual(ODD_KEYS.map((_key, index) => `value ${index}`));
    expect(new Set((await everything(adapter)).map(([key]) => key))).toEqual(new Set(ODD_KEYS));
    expect(await adapter.deleteMany(ODD_KEYS)).toEqual(ODD_KEYS.map(() => true));
    expect(await everything(adapter)).toEqual([]);
  });

  it('is a map, whatever is done to it', async () => {
    const key = fc.constantFrom('a', 'b', 'ä', ' ');
    const step = fc.oneof(
      fc.tuple(fc.constant('set' as const), key, fc.string()),
      fc.tuple(fc.constant('delete' as const), key, fc.constant('')),
    );
    let round = 0;
    const property = fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const adapter = new SqliteAdapter(database, `round ${(round += 1)}`);
      const model = new Map<string, string>();
      for (const [what, at, value] of steps) {
        if (what === 'set') {
          await adapter.set(at, value);
          model.set(at, value);
        } else {
          expect(await adapter.delete(at)).toBe(model.delete(at));
        }
      }
      expect(new Map((await everything(adapter)) as [string, string][])).toEqual(model);
    });
    await fc.assert(property, { numRuns: 30 });
  });

  it('keeps namespaces apart', async () => {
    const one = new SqliteAdapter(database, 'one');
    const two = new SqliteAdapter(database, 'two');
    await one.set('a', '1');
    await two.set('a', '2');
    expect([await one.get('a'), await two.get('a')]).toEqual(['1', '2']);
    expect(await two.delete('a')).toBe(true);
    expect(await one.get('a')).toBe('1');
    await two.set('b', '2');
    await one.clear();
    expect(await everything(one)).toEqual([]);
    expect(await everything(two)).toEqual([['b', '2']]);
  });

  it('sets all or none of a batch', async () => {
    const adapter = new SqliteAdapter(database, 'ns');
    const bad = { key: 'c', value: { no: 'SQL value' } };
    await expect(
      adapter.setMany<unknown>([{ key: 'a', value: '1' }, { key: 'b', value: '2' }, bad]),
    ).rejects.toThrow();
    expect(await everything(adapter)).toEqual([]);
    await adapter.set('a', 'still works');
    expect(await adapter.get('a')).toBe('still works');
  });

  it('goes through more entries than it reads at once, in order, each once', async () => {
    const adapter = new SqliteAdapter(database, 'ns');
    const keys = Array.from({ length: 1000 }, (_, index) => `key ${String(index).padStart(4, '0')}`);
    await adapter.setMany(keys.map((key) => ({ key, value: 'x' })));
    expect((await everything(adapter)).map(([key]) => key)).toEqual(keys);
  });

  it('can be changed while it is gone through', async () => {
    const adapter = new SqliteAdapter(database, 'ns');
    await adapter.setMany<unknown>(['a', 'b', 'c'].map((key) => ({ key, value: key })));
    const seen: unknown[] = [];
    for await (const [key] of adapter.iterator<string>()) {
      seen.push(key);
      await adapter.delete(String(key));
      await adapter.set('0', 'before');
    }
    expect(seen).toEqual(['a', 'b', 'c']);
    expect(await everything(adapter)).toEqual([['0', 'before']]);
  });

  it('forgets what has expired', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1000 });
    const adapter = new SqliteAdapter(database, 'ns');
    await adapter.set('soon', 'x', 1500);
    await adapter.setMany<unknown>([
      { key: 'later', value: 'x', expires: 3000 },
      { key: 'never', value: 'x' },
    ]);
    expect(await adapter.hasMany(['soon', 'later', 'never'])).toEqual([true, true, true]);
    vi.setSystemTime(2000);
    expect(await adapter.hasMany(['soon', 'later', 'never'])).toEqual([false, true, true]);
    expect((await everything(adapter)).map(([key]) => key)).toEqual(['later', 'never']);
    await adapter.set('later', 'for ever');
    vi.setSystemTime(4000);
    expect(await adapter.get('later')).toBe('for ever');
  });

  it('says that it keeps times of expiry itself', () => {
    const { capabilities } = new SqliteAdapter(database, 'ns');
    expect(capabilities).toMatchObject({ store: 'keyvStorage' });
  });

  it('throws when its database is gone', async () => {
    const adapter = new SqliteAdapter(database, 'ns');
    database.close();
    await expect(adapter.get('a')).rejects.toThrow();
    await expect(adapter.set('a', 'x')).rejects.toThrow();
    database = new DatabaseSync(join(folder, 'state.db'));
  });
});
