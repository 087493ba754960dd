import { createServer, type Server } from 'node:net';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startHttp } from '../../../../src/daemon/web/server.ts';
import { loadSettings } from '../../../../src/config/load.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import { listen } from '../../../support/listen.ts';
import { eventfulReport } from '../../../support/report.ts';

const SOON_MS = 10;

/** Takes a port of this machine. */
async function takePort(): Promise<{ taken: Server; port: number }> {
  const taken = createServer();
  return { taken, port: Number((await listen(taken)).split(':')[1]) };
}

/** Serves at an address, and collects the events. */
async function serveAt(listen: string, tryAgainMs: number) {
  const flags = { 'http.listen': listen };
  const { settings } = loadSettings({ flags, env: {}, needs: [], defaultConfigFile: '/nonexistent.yaml' });
  const events: MirrorEvent[] = [];
  const status = {
    report: () => Promise.resolve(eventfulReport()),
    changes: () => Promise.resolve(eventfulReport().changes),
    liveness: () => eventfulReport().liveness,
    isBusy: () => false,
  };
  const emit = (event: MirrorEvent): unknown => events.push(event);
  const http = await startHttp(() => settings, status, emit, null, tryAgainMs);
  onTestFinished(http.close);
  return { http, events, names: () => events.map(({ name }) => name) };
}

describe('the status page', () => {
  it('is missing while its port is taken, reports that once, and appears when the port is free', async () => {
    const { taken, port } = await takePort();
    const { events, names } = await serveAt(`127.0.0.1:${port}`, SOON_MS);
    const message = expect.stringContaining(`port ${port}`) as string;
    expect(events).toMatchObject([{ name: 'http.unavailable', code: 'http.unusable', message }]);
    taken.close();
    await expect.poll(names).toEqual(['http.unavailable', 'http.listening']);
    expect((await fetch(`http://127.0.0.1:${port}/api/schema`)).ok).toBe(true);
  });

  it('is not retried once it is closed', async () => {
    const { taken, port } = await takePort();
    const { http, names } = await serveAt(`127.0.0.1:${port}`, SOON_MS);
    await http.close();
    taken.close();
    await new Promise((resolve) => setTimeout(resolve, 10 * SOON_MS));
    expect(names()).toEqual(['http.unavailable']);
  });
});
