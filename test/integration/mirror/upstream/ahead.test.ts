import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { expect, it, onTestFinished } from 'vitest';

import { PageCache } from '../../../../src/mirror/upstream/pages.ts';
import type { PauseMemory } from '../../../../src/mirror/upstream/retries.ts';
import { createTransport, type Transport } from '../../../../src/mirror/upstream/transport.ts';
import { readWorkbooks } from '../../../../src/mirror/upstream/workbooks.ts';

const PAGES = 10;

function pageText(page: number): string {
  const row = {
    id: `Accounting/${page}.xlsx`,
    name: `/${page}.xlsx`,
    integration: 'Accounting',
    version: { id: 'v1', branch: 'main', author: 'Ada', message: 'a change', status: 'success' },
    status: { processing: 0, failure: 0 },
  };
  return JSON.stringify({
    count: PAGES,
    next: page < PAGES ? `?page=${page + 1}` : null,
    previous: null,
    results: [row],
  });
}

/** A service that takes one request at a time, and the third page of which takes until it has refused another request. */
async function startNarrowService(
  status: number,
): Promise<{ readonly baseUrl: string; readonly asked: number[]; readonly refused: number[] }> {
  const asked: number[] = [];
  const refused: number[] = [];
  const hasRefused = Promise.withResolvers<void>();
  let isBusy = false;
  const server = createServer((request, response) => {
    const page = Number(new URL(request.url ?? '', 'http://service').searchParams.get('page') ?? 1);
    asked.push(page);
    if (isBusy) {
      refused.push(page);
      response.writeHead(status, { 'retry-after': '60' }).end();
      hasRefused.resolve();
      return;
    }
    isBusy = true;
    const end = (): void => {
      isBusy = false;
      response.end(pageText(page));
    };
    if (page === 3) void hasRefused.promise.then(end);
    else end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { baseUrl: `http://127.0.0.1:${port}/api`, asked, refused };
}

function connect(baseUrl: string, pause: PauseMemory): Transport {
  const transport = createTransport({
    baseUrl,
    keys: { current: [], v1: [{ place: 'first', reveal: () => 'token' }] },
    refusals: {},
    connectTimeoutMs: 5000,
    headersTimeoutMs: 5000,
    stallTimeoutMs: 5000,
    connections: 2,
    maxBandwidth: null,
    retries: 3,
    maxRetryDelayMs: 1000,
    maxAnswerBytes: 100_000,
    pause,
  });
  onTestFinished(() => transport.close());
  return transport;
}

it.each([429, 503])(
  'a service that refuses pages that are asked for ahead with status %i gives its list, and no pause begins',
  async (status) => {
    const { baseUrl, asked, refused } = await startNarrowService(status);
    const pause: PauseMemory = {};
    const transport = connect(baseUrl, pause);
    const memory = new PageCache();
    const { signal } = new AbortController();
    expect(await readWorkbooks(transport, signal, undefined, memory)).toMatchObject({ isComplete: true });
    expect(refused.length).toBeGreaterThan(0);
    expect(pause).toEqual({});
    asked.length = 0;
    refused.length = 0;
    expect(await readWorkbooks(transport, signal, undefined, memory)).toMatchObject({ isComplete: true });
    expect(asked).toEqual(Array.from({ length: PAGES }, (_, index) => index + 1));
    expect(refused).toEqual([]);
  },
);
