import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  type Database,
  type NamespaceStore,
  namespaceStore,
  openInMemory,
  openSqlite,
  openSqliteForReading,
} from '../../../../src/mirror/state/database.ts';
import { describeStore, everything } from '../../../support/namespace-stores.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const shared = openInMemory();
afterAll(() => shared.close());

describeStore('the SQLite store', (namespace) => namespaceStore(shared, namespace));

let backend: Database;

beforeEach(async () => {
  backend = await openSqlite(join(await temporaryFolder(), 'state.db'), () => {});
});

afterEach(() => backend.close().catch(() => {}));

const storeOf = (namespace: string): NamespaceStore => namespaceStore(backend, namespace);

describe('the SQLite store', () => {
  it('sets all entries of a call or none', async () => {
    const bad = ['c', { no: 'SQL value' } as unknown as string] as const;
    await expect(backend.write('ns', [['a', '1'], ['b', '2'], bad])).rejects.toThrow();
    const store = storeOf('ns');
    expect(await everything(store)).toEqual([]);
    await store.set('a', 'still works');
    expect(await store.get('a')).toBe('still works');
  });

  it('opens nothing for a reader if a pipe is in its place', async () => {
    const pipe = join(await temporaryFolder(), 'pipe');
    execFileSync('mkfifo', [pipe]);
    expect(openSqliteForReading(pipe)).toBe(null);
  });

  it('throws when its database is gone', async () => {
    const store = storeOf('ns');
    await backend.close();
    await expect(store.get('a')).rejects.toThrow();
    await expect(store.set('a', 'x')).rejects.toThrow();
  });
});
