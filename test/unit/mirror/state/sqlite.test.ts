import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { Keyv } from 'keyv';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { DatabaseAdapter } from '../../../../src/mirror/state/adapter.ts';
import { createTable, sqliteEntries } from '../../../../src/mirror/state/sqlite-entries.ts';
import { describeAdapter } from '../../../support/keyv-adapters.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const shared = new DatabaseSync(':memory:');
createTable(shared);
afterAll(() => shared.close());

describeAdapter('the SQLite adapter', (namespace) => new DatabaseAdapter(sqliteEntries(shared), namespace));

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

const adapterOf = (namespace: string): DatabaseAdapter =>
  new DatabaseAdapter(sqliteEntries(database), namespace);

async function everything(adapter: DatabaseAdapter): Promise<unknown[][]> {
  const found: unknown[][] = [];
  for await (const entry of adapter.iterator<string>()) found.push(entry);
  return found;
}

describe('the SQLite adapter', () => {
  it('sets all or none of what goes into one call', async () => {
    const entries = sqliteEntries(database);
    const bad = ['c', { no: 'SQL value' } as unknown as string] as const;
    await expect(entries.write('ns', [['a', '1'], ['b', '2'], bad])).rejects.toThrow();
    const adapter = adapterOf('ns');
    expect(await everything(adapter)).toEqual([]);
    await adapter.set('a', 'still works');
    expect(await adapter.get('a')).toBe('still works');
  });

  it('goes through more entries than it reads at once, in order, each once', async () => {
    const adapter = adapterOf('ns');
    const keys = Array.from({ length: 1000 }, (_, index) => `key ${String(index).padStart(4, '0')}`);
    await adapter.setMany(keys.map((key) => ({ key, value: 'x' })));
    expect((await everything(adapter)).map(([key]) => key)).toEqual(keys);
  });

  it('lets keyv forget what has expired', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1000 });
    const keyv = new Keyv({ store: adapterOf('ns'), namespace: 'ns' });
    const keys = async (): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const [key] of keyv.iterator()) found.push(key);
      return found;
    };
    await keyv.set('soon', 'x', 500);
    await keyv.set('later', 'x', 2000);
    await keyv.set('never', 'x');
    expect(await keyv.hasMany(['soon', 'later', 'never'])).toEqual([true, true, true]);
    vi.setSystemTime(2000);
    expect(await keyv.hasMany(['soon', 'later', 'never'])).toEqual([false, true, true]);
    expect(await keys()).toEqual(['later', 'never']);
    await keyv.set('later', 'for ever');
    vi.setSystemTime(4000);
    expect(await keyv.get('later')).toBe('for ever');
  });

  it('says that it is one of keyv 6', () => {
    expect(adapterOf('ns').capabilities).toMatchObject({ store: 'keyvStorage', expires: true });
  });

  it('passes over a key that it never wrote', async () => {
    database.exec(`INSERT INTO kv VALUES ('ns', '"half', 'x', NULL), ('ns', 'whole', 'y', NULL)`);
    expect(await everything(adapterOf('ns'))).toEqual([['whole', 'y']]);
  });

  it('throws when its database is gone', async () => {
    const adapter = adapterOf('ns');
    database.close();
    await expect(adapter.get('a')).rejects.toThrow();
    await expect(adapter.set('a', 'x')).rejects.toThrow();
    database = new DatabaseSync(join(folder, 'state.db'));
  });
});
