import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, createServer } from 'node:net';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import type { MirrorEvent } from '../../../../src/app/events.ts';
import { createMetrics } from '../../../../src/daemon/metrics/metrics.ts';
import type { StatusService } from '../../../../src/daemon/status/status-service.ts';
import { createRoutes } from '../../../../src/daemon/web/routes.ts';
import { createWebServer } from '../../../../src/daemon/web/server.ts';
import { inlineSecret } from '../../../../src/config/secret.ts';
import { loadPage } from '../../../../src/lib/http/page-files.ts';
import { ask } from '../../../support/listen.ts';
import { daemonReport, eventfulReport, targetStatus } from '../../../support/report.ts';
import { parseMetrics } from '../../../support/text-format.ts';

interface Served {
  readonly token?: string | null;
  readonly pollToken?: string | null;
  readonly allowedHosts?: string[];
  readonly report?: StatusService['report'];
  readonly liveness?: StatusService['liveness'];
  readonly askForPass?: (() => void) | null;
}

async function serve(options: Served = {}, where = { host: '127.0.0.1', port: 0 }) {
  const events: MirrorEvent[] = [];
  const { report = () => Promise.resolve(eventfulReport()), liveness = () => eventfulReport().liveness } =
    options;
  const secret = (text: string | null = null) => (text === null ? undefined : inlineSecret(text));
  const server = createWebServer(
    () => ({
      token: secret(options.token),
      pollToken: secret(options.pollToken),
      allowedHosts: options.allowedHosts ?? [],
    }),
    createRoutes(
      await loadPage('daemon/page', 'the page'),
      { report, changes: () => Promise.resolve(eventfulReport().changes), liveness },
      createMetrics().render,
    ),
    options.askForPass ?? null,
    (event) => events.push(event),
  );
  onTestFinished(() => server.close());
  return { server, events, ...(await server.listen(where)) };
}

function json({ text }: { readonly text: string }): unknown {
  return JSON.parse(text);
}

/** Opens the event stream, and gives its events. */
async function listenTo({ port }: { readonly port: number }) {
  const asked = request({ host: '127.0.0.1', port, path: '/api/events', agent: false });
  asked.on('error', () => {});
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  expect(response.statusCode).toBe(200);
  expect(response.headers['content-type']).toBe('text/event-stream');
  let text = '';
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    text += chunk;
  });
  response.on('error', () => {});
  return {
    text: () => text,
    next: () => once(response, 'data'),
    ended: new Promise((resolve) => response.once('close', resolve)),
  };
}

const TOKEN = 's3cret-token';
const BASIC = `Basic ${Buffer.from(`anyone:${TOKEN}`).toString('base64')}`;

describe('health', () => {
  it('is given by the status code, without other facts of the mirror', async () => {
    const ill = await serve();
    const healthz = await ask(ill, '/healthz');
    expect(healthz.status).toBe(503);
    expect(json(healthz)).toEqual({ alive: false, state: 'stuck', silentMs: 90_000 });
    const readyz = await ask(ill, '/readyz');
    expect(readyz.status).toBe(503);
    expect(json(readyz)).toEqual({
      ready: false,
      listed: true,
      notReadyCount: 1,
      notReady: [{ target: 'Failing/main', reason: 'stale', verifiedAt: '2025-06-02T09:00:00.000Z' }],
    });
    const well = await serve({
      report: () => Promise.resolve(daemonReport()),
      liveness: () => daemonReport().liveness,
    });
    expect((await ask(well, '/healthz')).status).toBe(200);
    expect((await ask(well, '/readyz')).status).toBe(200);
  });

  it('needs no token, and then names no target', async () => {
    const { readiness, ...rest } = eventfulReport();
    const report = { ...rest, readiness: { ...readiness, stateProblem: 'It fails at /srv.' } };
    const served = await serve({ token: TOKEN, report: () => Promise.resolve(report) });
    expect((await ask(served, '/healthz')).status).toBe(503);
    expect(json(await ask(served, '/readyz'))).toEqual({ ready: false, listed: true, notReadyCount: 1 });
    const named = async (token: string): Promise<unknown> =>
      json(await ask(served, '/readyz', { authorization: `Bearer ${token}` }));
    expect(await named('wrong')).not.toHaveProperty('notReady');
    expect(await named(TOKEN)).toHaveProperty('notReady');
  });

  it('names at most 100 targets, and why the state cannot be read', async () => {
    const notReady = Array.from({ length: 250 }, (_, index) => ({
      target: `R${index}/main`,
      reason: 'never-verified' as const,
      verifiedAtMs: index === 0 ? Number.MAX_VALUE : null,
    }));
    const readiness = { isReady: false, isListed: true, selectsNothing: false, notReady };
    const report = daemonReport({ readiness: { ...readiness, stateProblem: 'It fails.' } });
    const served = await serve({ report: () => Promise.resolve(report) });
    const body = json(await ask(served, '/readyz')) as { notReady: unknown[] };
    expect(body).toMatchObject({ ready: false, notReadyCount: 250, reason: 'It fails.' });
    expect(body.notReady).toHaveLength(100);
  });
});

describe('the server', () => {
  it('serves the page, metrics, status and its schema, with headers that forbid unneeded features', async () => {
    const served = await serve();
    const types = {
      '/': 'text/html; charset=utf-8 no-cache',
      '/?a=b#c': 'text/html; charset=utf-8 no-cache',
      '/page/daemon/page/page.js': 'text/javascript; charset=utf-8 no-cache',
      '/page/daemon/page/page.css': 'text/css; charset=utf-8 no-cache',
      '/page/lib/page/text.js': 'text/javascript; charset=utf-8 no-cache',
      '/metrics': 'text/plain; version=0.0.4; charset=utf-8 no-store',
      '/api/status': 'application/json; charset=utf-8 no-store',
      '/api/schema': 'application/schema+json no-cache',
    };
    for (const [path, type] of Object.entries(types)) {
      const { status, headers } = await ask(served, path);
      expect(status, path).toBe(200);
      expect(headers, path).toMatchObject({
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      });
      expect(headers['access-control-allow-origin']).toBeUndefined();
      expect(`${headers['content-type']} ${headers['cache-control']}`, path).toBe(type);
    }
    expect(parseMetrics((await ask(served, '/metrics')).text).samples.length).toBeGreaterThan(100);
    const status = json(await ask(served, '/api/status'));
    expect(status).toMatchObject({ version: '1.2.3', targets: { length: 5 } });
    expect((await ask(served, `http://127.0.0.1:${served.port}/healthz`)).status).toBe(503);
  });

  it.each([
    '/nothing',
    '/page/../server.ts',
    '/page/..%2f..%2fpackage.json',
    '//page/daemon/page/page.js',
    '/api/status/',
    '/__proto__',
    '*',
    '/page/daemon/page/page.js%00',
  ])('has nothing at %s', async (path) => {
    expect((await ask(await serve(), path)).status).toBe(404);
  });

  it('accepts only GET and HEAD', async () => {
    const served = await serve();
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE']) {
      const { status, headers } = await ask(served, '/api/status', {}, method);
      expect([method, status, headers.allow]).toEqual([method, 405, 'GET, HEAD']);
    }
    const get = await ask(served, '/api/status');
    const head = await ask(served, '/api/status', {}, 'HEAD');
    expect([head.status, head.bytes.length]).toEqual([200, 0]);
    expect(head.headers['content-length']).toBe(get.headers['content-length']);
    expect((await ask(served, '/api/events', {}, 'HEAD')).headers['content-type']).toBe('text/event-stream');
  });
});

describe('with a token', () => {
  it.each(['/', '/page/daemon/page/page.js', '/metrics', '/api/status', '/api/schema', '/api/events'])(
    '%s asks for it, so that a browser asks its user',
    async (path) => {
      const served = await serve({ token: TOKEN });
      for (const headers of [{}, { authorization: 'Bearer wrong' }]) {
        const answer = await ask(served, path, headers);
        expect(answer.status).toBe(401);
        expect(answer.headers['www-authenticate']).toMatch(/^Basic realm=/);
        expect(answer.text).not.toContain(TOKEN);
      }
      expect((await ask(served, path, { authorization: `Bearer ${TOKEN}` }, 'HEAD')).status).toBe(200);
      expect((await ask(served, path, { authorization: BASIC }, 'HEAD')).status).toBe(200);
    },
  );

  it('a new one is required as soon as it changes', async () => {
    const options = { token: TOKEN };
    const served = await serve(options);
    expect((await ask(served, '/api/status', { authorization: BASIC })).status).toBe(200);
    options.token = 'another';
    expect((await ask(served, '/api/status', { authorization: BASIC })).status).toBe(401);
  });
});

describe('a browser on a hostile page', () => {
  it.each(['127.0.0.1', '0.0.0.0'])('gets nothing under a foreign name that points to %s', async (listen) => {
    const served = await serve({}, { host: listen, port: 0 });
    for (const path of ['/', '/api/status', '/metrics', '/readyz', '/healthz', '/nothing']) {
      const { status, text } = await ask(served, path, { host: `evil.example.com:${served.port}` });
      expect([path, status]).toEqual([path, 421]);
      expect(text).toMatch(/http\.token.*http\.allowedHosts/);
    }
    for (const host of ['localhost', `[::1]:${served.port}`, '127.0.0.1', '10.1.2.3:9480'])
      for (const path of ['/api/status', '/healthz', '/readyz'])
        expect((await ask(served, path, { host })).status).not.toBe(421);
  });

  it('may use names as soon as they are allowed', async () => {
    const options = { allowedHosts: [''] };
    const served = await serve(options, { host: '0.0.0.0', port: 0 });
    const host = 'mirror.default.svc:9480';
    expect((await ask(served, '/metrics', { host })).status).toBe(421);
    options.allowedHosts = ['mirror.default.svc'];
    expect((await ask(served, '/metrics', { host })).status).toBe(200);
  });

  it('may use any name if a token is required', async () => {
    const guarded = await serve({ token: TOKEN });
    const host = 'mirror.example.com';
    expect((await ask(guarded, '/api/status', { host })).status).toBe(401);
    expect((await ask(guarded, '/api/status', { host, authorization: BASIC })).status).toBe(200);
  });

  it('gets nothing for a page of another site', async () => {
    const served = await serve();
    const headers = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' };
    expect((await ask(served, '/api/events', headers)).status).toBe(403);
    expect((await ask(served, '/', { ...headers, 'sec-fetch-mode': 'navigate' })).status).toBe(200);
  });
});

describe('a request for a pass', () => {
  const TOKEN = 'a-token';
  const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };

  /** The status of the response, and the number of requested passes. */
  async function asked(options: Served, headers: Readonly<Record<string, string>>, method = 'POST') {
    let times = 0;
    const askForPass = (): void => void (times += 1);
    const served = await serve({ pollToken: TOKEN, askForPass, ...options });
    return [(await ask(served, '/api/poll', headers, method)).status, times];
  }

  it('is accepted with the token, as a bearer or as a password', async () => {
    const basic = { authorization: `Basic ${Buffer.from(`ci:${TOKEN}`).toString('base64')}` };
    for (const headers of [AUTHORIZED, basic]) expect(await asked({}, headers)).toEqual([202, 1]);
  });

  it.each([
    ['if the settings have no token', { pollToken: null }, AUTHORIZED, 'POST', 404],
    ['without a token', {}, {}, 'POST', 401],
    ['with another token', {}, { authorization: 'Bearer other' }, 'POST', 401],
    ['by another method', {}, AUTHORIZED, 'GET', 405],
    ['to pages of other sites', {}, { ...AUTHORIZED, 'sec-fetch-site': 'cross-site' }, 'POST', 403],
    ['by an instance that stands by', { askForPass: null }, AUTHORIZED, 'POST', 503],
  ] as const)('is refused %s', async (_when, options, headers, method, status) => {
    expect(await asked(options, headers, method)).toEqual([status, 0]);
  });
});

it('the report that fails is logged once an hour, and sent to the client without its reason', async () => {
  const served = await serve({ report: () => Promise.reject(new Error('EIO: /secret/path')) });
  for (const path of ['/api/status', '/readyz', '/metrics']) {
    const { status, text } = await ask(served, path);
    expect(status).toBe(500);
    expect(text).not.toContain('secret');
  }
  expect(served.events).toMatchObject([
    { name: 'http.failed', path: '/api/status', message: 'EIO: /secret/path' },
  ]);
  // The message names the log, which keeps no line for ever.
  const hourLaterMs = performance.now() + 3_600_000;
  vi.spyOn(performance, 'now').mockReturnValue(hourLaterMs);
  await ask(served, '/readyz');
  await ask(served, '/metrics');
  expect(served.events).toMatchObject([{ path: '/api/status' }, { path: '/readyz' }]);
});

describe('the event stream', () => {
  it('reports only that something changed, once for many changes', async () => {
    const served = await serve();
    const stream = await listenTo(served);
    if (stream.text() === '') await stream.next();
    expect(stream.text()).toBe('retry: 3000\ndata: 0\n\n');
    for (let index = 0; index < 500; index += 1) served.server.notify();
    await stream.next();
    expect(stream.text()).toBe('retry: 3000\ndata: 0\n\ndata: 500\n\n');
    served.server.notify();
    await stream.next();
    expect(stream.text().endsWith('data: 500\n\ndata: 501\n\n')).toBe(true);
  });

  it('ends immediately with the server, like idle connections', async () => {
    const served = await serve();
    const stream = await listenTo(served);
    const kept = connect(served.port, '127.0.0.1');
    kept.on('error', () => {});
    kept.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(kept, 'data');
    const keptEnded = once(kept, 'close');
    served.server.notify();
    await served.server.close();
    await Promise.all([stream.ended, keptEnded]);
    const next = createServer();
    await once(next.listen(served.port, '127.0.0.1'), 'listening');
    next.close();
  });
});

it('a client that misbehaves by not reading is cut off, with any amount unread', async () => {
  const targets = Array.from({ length: 20_000 }, (_, number) => targetStatus({ target: `target-${number}` }));
  const served = await serve({ report: () => Promise.resolve(daemonReport({ targets })) });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const socket = connect(served.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write('GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await once(socket, 'readable');
  vi.advanceTimersByTime(30_000);
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(socket, 'close');
  expect(bytes).toBeLessThan((await ask(served, '/api/status')).bytes.length);
});

it('event streams leave room for health checks', async () => {
  const served = await serve();
  await Promise.all(Array.from({ length: 100 }, () => listenTo(served)));
  expect((await ask(served, '/api/events')).status).toBe(503);
  expect((await ask(served, '/healthz')).status).toBe(503);
  expect((await ask(served, '/api/status')).status).toBe(200);
});
