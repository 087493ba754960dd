import { inspect } from 'node:util';

import { describe, expect, it } from 'vitest';

import { API_KEY, API_TOKEN, type Fault } from '../../../support/fake-service.ts';
import { startFake } from '../../../support/started-fake.ts';
import { startPair, treeOf } from '../../../support/mirror-harness.ts';

async function seeded(): ReturnType<typeof startPair> {
  const { service, mirror } = await startPair();
  service.addRepository('Accounting', { 'a.xlsx': 'a' });
  service.addRepository('Other', { 'o.xlsx': 'o' });
  return { service, mirror };
}

describe('a redirect', () => {
  it.each([301, 303, 308])('with status %i inside the origin is followed', async (status) => {
    const { service, mirror } = await seeded();
    service.fault = (path) => {
      if (path === '/api/repos') return { kind: 'redirect', to: '/api/repos?moved', status };
      return path.includes('/contents?')
        ? { kind: 'redirect', to: path.replace('?', '/?moved&'), status }
        : null;
    };
    expect((await mirror.exactPass()).exitCode).toBe(0);
    expect(service.credentialFaults()).toStrictEqual([]);
  });

  it.each(['/api/repos', '/api/v1/workbooks'])(
    'of %s to another origin ends the pass, and nothing is sent there',
    async (list) => {
      const { service, mirror } = await seeded();
      const other = await startFake();
      for (const to of [
        `${other.origin}${list}`,
        other.origin.replace('http:', ''),
        `${other.origin}/login`,
      ]) {
        service.fault = (path) => (path === list ? { kind: 'redirect', to } : null);
        expect(await mirror.failure()).toMatchObject({ code: 'service.redirected', action: 'stall' });
      }
      expect(other.requests).toStrictEqual([]);
    },
  );

  it('of contents to another origin fails this target only, and nothing is sent there', async () => {
    const { service, mirror } = await seeded();
    const other = await startFake();
    service.faultContents({ kind: 'redirect', to: `${other.origin}/x.zip?s=1` }, service.named());
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'service.redirected', errorAction: 'stall' });
    await mirror.expectExact({ 'Other/main': treeOf({ 'o.xlsx': 'o' }) });
    expect(other.requests).toStrictEqual([]);
  });

  it('to its own address ends, and so does one without an address', async () => {
    const { service, mirror } = await seeded();
    service.fault = (path) => (path.startsWith('/api/repos') ? { kind: 'redirect', to: path } : null);
    expect(await mirror.failure()).toMatchObject({ code: 'service.redirected' });
    expect(service.takeRequests().length).toBeLessThan(20);
    service.fault = () => ({ kind: 'redirect', to: 'http://' });
    expect(await mirror.failure()).toMatchObject({ code: 'service.redirected' });
  });

  it('to a login page inside the origin is recognised as of the wrong kind', async () => {
    const { service, mirror } = await seeded();
    service.fault = (path) => {
      if (path === '/login') return { kind: 'html' };
      return path === '/api/repos' ? { kind: 'redirect', to: '/login' } : null;
    };
    expect(await mirror.failure()).toMatchObject({ code: 'service.wrong_kind' });
  });

  it('never takes a credential to the other generation of the API', async () => {
    const { service, mirror } = await seeded();
    service.fault = (path) =>
      path === '/api/v1/workbooks' ? { kind: 'redirect', to: '/api/repos?x' } : null;
    await mirror.failure();
    expect(service.credentialFaults()).toStrictEqual([]);
  });

  it.each(['/api/v1', '/api/%761/workbooks', '/api/v1%2Fworkbooks', '/api/%zz'])(
    'never takes the key of the current API to %s',
    async (to) => {
      const { service, mirror } = await seeded();
      service.fault = (path) => (path === '/api/repos' ? { kind: 'redirect', to } : null);
      expect(await mirror.failure()).toMatchObject({ code: 'service.redirected' });
    },
  );
});

describe('the next page', () => {
  const VERSION = { id: 'v', branch: 'main' };

  it.each([
    [
      'full pages',
      [{ id: 'Accounting/a.xlsx', name: '/a.xlsx', integration: 'Accounting', version: VERSION }],
    ],
    ['empty pages', []],
  ])('without an end does not keep a pass busy forever (%s)', async (_name, results) => {
    const { service, mirror } = await seeded();
    const abort = new AbortController();
    let pages = 0;
    service.fault = (path) => {
      if (!path.includes('/workbooks')) return null;
      pages += 1;
      if (pages > 1500) abort.abort();
      const page = { count: 2, next: `?page=${pages}`, previous: null, results };
      return { kind: 'body', body: Buffer.from(JSON.stringify(page)) };
    };
    const error = await mirror.failure({ signal: abort.signal });
    expect(error.code).toMatch(/^listing\./);
  });
});

describe('secrets', () => {
  const faults: readonly [string, Fault][] = [
    ['status 401', { kind: 'status', status: 401 }],
    ['status 500', { kind: 'status', status: 500 }],
    [
      'a redirect that names them',
      { kind: 'redirect', to: `http://x.invalid/?key=${API_KEY}&token=${API_TOKEN}` },
    ],
    ['a body that names them', { kind: 'body', body: Buffer.from(`{"error":"${API_KEY} ${API_TOKEN}"}`) }],
  ];
  it.each(faults)('are in no error and no event after %s', async (_name, fault) => {
    const { service, mirror } = await seeded();
    for (const part of ['/repos', '/v1/workbooks', '/contents']) {
      service.fault = (path) => (path.includes(part) ? fault : null);
      const error: unknown = await mirror.pass().then(
        () => null,
        (reason: unknown) => reason,
      );
      const said = `${inspect(error, { depth: 8 })} ${await mirror.everythingSaid()}`;
      expect(said).not.toContain(API_KEY);
      expect(said).not.toContain(API_TOKEN);
    }
  });

  const reflections: readonly [string, (key: string) => string][] = [
    ['the path of a login page elsewhere', (key) => `http://login.invalid/sso/${key}/x`],
    ['the name of another host', (key) => `http://${key}.invalid/`],
    ['a path of its own', (key) => `/sso/${key}/${encodeURIComponent(key)}`],
  ];
  it.each(reflections)('are masked if the service redirects to %s that has them', async (_name, to) => {
    const { service, mirror } = await seeded();
    const key = 'Key+5f1d-Abc';
    await mirror.restart({ SERVICE_API_KEY: key, SERVICE_API_TOKEN: key });
    service.apiKey = key;
    service.apiToken = key;
    service.knobs.pageSize = 1;
    for (const part of ['/repos', '/v1/workbooks', '/contents']) {
      service.fault = (path) => {
        if (path.includes('/sso/')) return { kind: 'html' };
        return path.includes(part) ? { kind: 'redirect', to: to(key) } : null;
      };
      const error: unknown = await mirror.pass().catch((reason: unknown) => reason);
      const said = `${inspect(error, { depth: 8 })} ${await mirror.everythingSaid()}`;
      for (const form of [key, key.toLowerCase(), encodeURIComponent(key)]) expect(said).not.toContain(form);
    }
    const failed = mirror.eventsOf('pass.failed').map(({ message }) => message);
    expect(failed.join()).not.toContain('login.invalid/');
    expect(failed).toHaveLength(2);
  });
});
