import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createRepository } from '../../../../src/app/tasks/service-lists.ts';
import { Transport } from '../../../../src/mirror/upstream/transport.ts';
import { listen } from '../../../support/listen.ts';

const ROW = { id: 'i', name: 'A', full_name: 'A', url: null, created_at: '2026-01-02T03:04:05.000000+00:00' };
const MAYBE = /may or may not have been created/;

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

let transport: Transport;
let answers: Answer[] = [];
let requests: Array<{ line: string; key: string; body: string }> = [];
let origin = '';

function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return (response) => response.writeHead(status, headers).end(JSON.stringify(body));
}

function connect(baseUrl: string, timeoutMs = 60_000): Transport {
  return new Transport({
    baseUrl,
    keys: (generation) => (generation === 'current' ? ['first-key', 'second-key'] : []),
    keyMemory: {},
    timeoutMs,
    connections: 2,
    pause: {},
  });
}

beforeEach(async () => {
  answers = [];
  requests = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const key = String(request.headers['x-api-key']);
      requests.push({ line: `${request.method} ${request.url}`, key, body });
      const answer = answers.shift();
      if (answer === undefined) response.writeHead(404).end();
      else answer(response, request);
    });
  });
  origin = `http://${await listen(server)}`;
  transport = connect(`${origin}/api`);
});

afterEach(() => transport.close());

const ASKED = { url: 'https://h/p.git', username: 'u', password: 'a-password' };

function create(signal = new AbortController().signal): Promise<unknown> {
  return createRepository(transport, ASKED, signal);
}

describe('a repository that is created through the client', () => {
  it('is what the service answers', async () => {
    answers = [json(201, ROW)];
    expect(await create()).toMatchObject({ id: 'i', fullName: 'A', url: null });
    const body = JSON.stringify(ASKED);
    expect(requests).toEqual([{ line: 'POST /api/repos', key: 'first-key', body }]);
  });

  it('is created as /repositories where /repos does not exist', async () => {
    answers = [json(404, {}), json(201, ROW)];
    expect(await create()).toMatchObject({ id: 'i' });
    expect(requests.map(({ line }) => line)).toEqual(['POST /api/repos', 'POST /api/repositories']);
  });

  it('is asked for again where it certainly was not created', async () => {
    answers = [json(429, {}), json(429, {}), json(401, {}), json(201, ROW)];
    expect(await create()).toMatchObject({ id: 'i' });
    expect(requests.map(({ key }) => key)).toEqual(['first-key', 'first-key', 'first-key', 'second-key']);
  });

  it.each<[string, Answer]>([
    ['fails', json(500, {})],
    ['is not available', json(503, {})],
    ['is behind a gateway that gives up', json(504, {})],
    ['takes too long for a proxy', json(408, {})],
    ['hangs up', (response) => response.destroy()],
    ['never answers', () => {}],
    ['answers with something else', (response) => response.writeHead(201).end('<html>')],
    [
      'breaks its answer off',
      (response) => {
        response.writeHead(201, { 'content-length': '100' }).write('{');
        response.flushHeaders();
        setImmediate(() => response.destroy());
      },
    ],
  ])('is asked for once when the service %s', async (what, answer) => {
    answers = [answer, json(201, ROW)];
    // All others answer at once.
    if (what === 'never answers') transport = connect(`${origin}/api`, 300);
    await expect(create()).rejects.toMatchObject({ hint: expect.stringMatching(MAYBE) as unknown });
    expect(requests).toHaveLength(1);
  });

  it('is requested once even if a person gives up during it', async () => {
    const abort = new AbortController();
    answers = [() => abort.abort()];
    const abandoned = { code: 'pass.abandoned', hint: expect.stringMatching(MAYBE) as unknown };
    await expect(create(abort.signal)).rejects.toMatchObject(abandoned);
    expect(requests).toHaveLength(1);
  });

  it('is not created by a service that refuses at length, of whose words the beginning is shown', async () => {
    const around = 'a-password'.repeat(300);
    answers = [json(400, { error: { code: 'invalid', message: `no${' '.repeat(2_000_000)}way ${around}` } })];
    await expect(create()).rejects.toMatchObject({ message: /\(status 400\): no {1998}…$/ });
    answers = [json(400, { error: { code: 'invalid', message: around } })];
    await expect(create()).rejects.toMatchObject({ message: /\(status 400\): (?:\[secret\]){250}…$/ });
  });

  it('is not created by a service that refuses, whose words are shown without the password', async () => {
    const error = { code: 'invalid', message: 'url: \u001b[1m a-password is\nbad' };
    answers = [json(400, { error })];
    await expect(create()).rejects.toMatchObject({
      code: 'usage.invalid',
      message: String.raw`The service created nothing (status 400): url: \u001b[1m [secret] is bad`,
    });
    const message = expect.not.stringMatching(MAYBE) as unknown;
    for (const status of [409, 422]) {
      answers = [json(status, ['?'])];
      await expect(create()).rejects.toMatchObject({ code: 'usage.invalid', message });
    }
    answers = [json(403, { error: { code: 'read_only', message: 'a replica' } })];
    await expect(create()).rejects.toMatchObject({ code: 'credentials.refused', message: /a replica$/ });
    answers = [json(405, {})];
    await expect(create()).rejects.toMatchObject({ code: 'service.not_found' });
  });

  it('is asked for with its body where the service moved, and not where a POST would become a GET', async () => {
    answers = [json(307, {}, { location: '/api/repos/' }), json(201, ROW)];
    await create();
    expect(requests.map(({ line }) => line)).toEqual(['POST /api/repos', 'POST /api/repos/']);
    expect(requests[1]?.body).toBe(requests[0]?.body);
    answers = [json(302, {}, { location: '/api/repos/' })];
    await expect(create()).rejects.toMatchObject({ code: 'service.redirected' });
    expect(requests).toHaveLength(3);
  });

  it('is requested again without a listener, and then it was not created', async () => {
    await transport.close();
    transport = connect('http://127.0.0.1:1/api');
    await expect(create()).rejects.toMatchObject({
      code: 'service.unreachable',
      hint: expect.not.stringMatching(MAYBE) as unknown,
    });
  });
});
