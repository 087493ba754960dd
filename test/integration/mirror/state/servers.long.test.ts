import { spawnSync } from 'node:child_process';
import { createServer, type Server } from 'node:net';
import { inspect } from 'node:util';

import { describe, expect, it, onTestFinished } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { type NamespaceStore, namespaceStore } from '../../../../src/mirror/state/database.ts';
import { openRemote } from '../../../../src/mirror/state/remote.ts';
import { State } from '../../../../src/mirror/state/state.ts';
import { listen, makeCertificate, trust } from '../../../support/listen.ts';
import { everything } from '../../../support/namespace-stores.ts';
import { freePort, hasRedis, postgres, startPostgres, startRedis } from '../../../support/stores.ts';

async function opened(address: string): Promise<NamespaceStore> {
  const backend = await openRemote(address);
  onTestFinished(() => backend.close());
  return namespaceStore(backend, 'ns');
}

async function listenOn(server: Server): Promise<string> {
  return (await listen(server)).replace('localhost', '127.0.0.1');
}

describe.skipIf(!hasRedis)('a Redis server', () => {
  it('may be restarted: the next call finds it', async () => {
    const first = await startRedis();
    const store = await opened(first.address);
    await store.set('a', '1');
    const lost = expect.poll(() => store.get('a').catch((error: unknown) => error));
    first.kill('SIGKILL');
    await lost.toBeInstanceOf(Error);
    await startRedis({ port: first.port });
    expect(await store.get('a')).toBeUndefined();
    await store.set('a', '2');
    expect(await store.get('a')).toBe('2');
  });

  it('may close idle connections without an effect', async () => {
    const { address, port } = await startRedis();
    const store = await opened(address);
    await store.set('a', '1');
    spawnSync('redis-cli', ['-p', String(port), 'CLIENT', 'KILL', 'TYPE', 'normal']);
    await expect.poll(() => store.get('a').catch(() => null)).toBe('1');
  });

  it('that hangs fails a call, and the next one works once it continues', async () => {
    const { address, kill } = await startRedis();
    const store = await opened(address);
    await store.set('a', '1');
    kill('SIGSTOP');
    await expect(store.get('a')).rejects.toThrow('it does not answer');
    kill('SIGCONT');
    expect(await store.get('a')).toBe('1');
  });

  it('that refuses a write fails the call', async () => {
    const { address } = await startRedis({ args: ['--maxmemory', '1'] });
    const store = await opened(address);
    await expect(store.set('a', '1')).rejects.toThrow('OOM');
    expect(await store.get('a')).toBeUndefined();
  });

  it('needs to allow only the keys of the program', async () => {
    const user = ['mirror', 'on', '>word', '~workbook-mirror:*', '-@all', '+@connection', '+@hash'];
    const { port } = await startRedis({ args: ['--user', ...user] });
    const store = await opened(`redis://mirror:word@127.0.0.1:${port}`);
    await store.setMany(['a', 'b'].map((key) => ({ key, value: key })));
    await store.deleteMany(['a']);
    expect(await everything(store)).toEqual([['b', 'b']]);
    await store.clear();
    expect(await store.get('b')).toBeUndefined();
  });

  it('is used by TLS if the address says so, and must be trusted', async () => {
    const { cert, certFile, keyFile } = await makeCertificate('localhost');
    const tlsPort = await freePort();
    const tls = ['--tls-port', String(tlsPort), '--tls-auth-clients', 'no'];
    await startRedis({ args: [...tls, '--tls-cert-file', certFile, '--tls-key-file', keyFile] });
    const address = `rediss://localhost:${tlsPort}`;
    await expect((await opened(address)).get('a')).rejects.toThrow('self-signed certificate');
    trust(cert);
    const store = await opened(address.replace('redis', 'valkey'));
    await store.set('a', '1');
    expect(await store.get('a')).toBe('1');
  });
});

describe.skipIf(postgres === null)('a PostgreSQL server', () => {
  const binaries = postgres ?? '';

  it('may be restarted: the next call finds it and its records', async () => {
    const server = await startPostgres(binaries);
    const store = await opened(server.address);
    await store.set('a', '1');
    await server.restart();
    await expect.poll(() => store.get('a').catch(() => null)).toBe('1');
  });

  it('that hangs fails a call, and the next one works once it continues', async () => {
    const { address, restart, sql } = await startPostgres(binaries);
    sql('ALTER SYSTEM SET max_prepared_transactions = 1');
    await restart();
    const store = await opened(address);
    await store.set('a', '1');
    sql("BEGIN; LOCK TABLE workbook_mirror_state; PREPARE TRANSACTION 'x'");
    await expect(store.get('a')).rejects.toThrow(/timeout|does not answer/);
    sql("ROLLBACK PREPARED 'x'");
    expect(await store.get('a')).toBe('1');
  });

  it('lets several instances make the table at once', async () => {
    const { address, sql } = await startPostgres(binaries);
    const keys = Array.from({ length: 8 }, (_, index) => `${index}`);
    for (let round = 0; round < 5; round += 1) {
      const all = await Promise.all(keys.map(() => openRemote(address)));
      const stores = all.map((database) => namespaceStore(database, 'ns'));
      await Promise.all(stores.map((store, index) => store.set(`${index}`, 'x')));
      for (const key of keys) expect(await stores[0]?.get(key)).toBeDefined();
      await Promise.all(all.map((database) => database.close()));
      sql('DROP TABLE workbook_mirror_state');
    }
  });

  it('needs to allow only the use of an existing table', async () => {
    const { address, sql } = await startPostgres(binaries);
    await (await opened(address)).set('a', '1');
    sql(`CREATE ROLE mirror LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON workbook_mirror_state TO mirror`);
    sql('REVOKE CREATE ON SCHEMA public FROM PUBLIC');
    const store = await opened(address.replace('postgres@', 'mirror@'));
    expect(await store.get('a')).toBe('1');
    await store.set('a', '2');
    expect(await store.delete('a')).toBe(true);
  });

  it('may lose the table: it is made again', async () => {
    const { address, sql } = await startPostgres(binaries);
    const store = await opened(address);
    await store.set('a', '1');
    sql('DROP TABLE workbook_mirror_state');
    await expect(store.get('a')).rejects.toThrow('does not exist');
    expect(await store.get('a')).toBeUndefined();
    await store.set('a', '2');
    expect(await store.get('a')).toBe('2');
  });
});

describe.each(['redis', 'postgres'])('an address that begins with %s', (scheme) => {
  const refusals: readonly (readonly [string, () => Promise<string>])[] = [
    ['refuses the connection', () => Promise.resolve('127.0.0.1:1')],
    ['has no name', () => Promise.resolve('no-such-host.invalid:1')],
    ['never answers', () => listenOn(createServer())],
    [
      'answers something else',
      () => listenOn(createServer((socket) => socket.end('HTTP/1.1 400 No\r\n\r\n'))),
    ],
  ];

  it.each(refusals)('%s fails, without the password', async (_what, where) => {
    const database = await openRemote(`${scheme}://user:s3cret%40word@${await where()}/0`);
    const state = new State(database, { onFailed: () => {}, onRecovered: () => {} }, 'directory', null);
    onTestFinished(() => state.close());
    const error: unknown = await state.lastPass().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(MirrorError);
    expect(error).toMatchObject({ code: 'state.unavailable' });
    expect((error as Error).message).not.toMatch(/fails: \.?$/);
    expect(inspect(error, { depth: 9, showHidden: true })).not.toMatch(/s3cret/);
  });
});
