import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';

import { NamespaceStore } from '../../../../src/mirror/state/adapter.ts';
import { createTable, sqliteEntries } from '../../../../src/mirror/state/sqlite-entries.ts';
import { describeStore } from '../../../support/namespace-stores.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const shared = new DatabaseSync(':memory:');
createTable(shared);
afterAll(() => shared.close());

describeStore('the SQLite store', (namespace) => new NamespaceStore(sqliteEntries(shared), namespace));

let folder = '';
let database: DatabaseSync;

beforeEach(async () => {
  folder = await temporaryFolder();
  database = new DatabaseSync(join(folder, 'state.db'));
  createTable(database);
});

afterEach(() => {
  database.close();
});

const storeOf = (namespace: string): NamespaceStore => new NamespaceStore(sqliteEntries(database), namespace);

async function everything(store: NamespaceStore): Promise<(readonly string[])[]> {
  const found: (readonly string[])[] = [];
  for await (const entry of store.iterator()) found.push(entry);
  return found;
}

describe('the SQLite store', () => {
  it('sets all or none of what goes into one call', async () => {
    const entries = sqliteEntries(database);
    const bad = ['c', { no: 'SQL value' } as unknown as string] as const;
    await expect(entries.write('ns', [['a', '1'], ['b', '2'], bad])).rejects.toThrow();
    const store = storeOf('ns');
    expect(await everything(store)).toEqual([]);
    await store.set('a', 'still works');
    expect(await store.get('a')).toBe('still works');
  });

  it('goes through more entries than it reads at once, in order, each once', async () => {
    const store = storeOf('ns');
    const keys = Array.from({ length: 1000 }, (_, index) => `key ${String(index).padStart(4, '0')}`);
    await store.setMany(keys.map((key) => ({ key, value: 'x' })));
    expect((await everything(store)).map(([key]) => key)).toEqual(keys);
  });

  it('throws when its database is gone', async () => {
    const store = storeOf('ns');
    database.close();
    await expect(store.get('a')).rejects.toThrow();
    await expect(store.set('a', 'x')).rejects.toThrow();
    database = new DatabaseSync(join(folder, 'state.db'));
  });
});
