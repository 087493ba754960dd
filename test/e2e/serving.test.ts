import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { startReceiver } from '../support/listen.ts';
import { type Running, start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const SERVED = {
  WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
  WORKBOOK_MIRROR_SCHEDULE: '* * * * * *',
};

/** The address of a daemon, once it serves. */
async function addressOf(daemon: Running): Promise<string> {
  await daemon.prints(/"http\.listening"/);
  return /"address":"([^"]+)"/.exec(daemon.stdout())?.[1] ?? '';
}

async function statusOf(address: string, path: string): Promise<number> {
  return (await fetch(new URL(path, address))).status;
}

describe('the daemon, asked over HTTP', () => {
  it('is ready once everything was verified, and no longer when the service is away for too long', async () => {
    const embedded = await startEmbedded();
    const { origin, received: beats } = await startReceiver();
    const daemon = start(['run'], {
      ...embedded.settings,
      ...SERVED,
      WORKBOOK_MIRROR_MAX_STALENESS: '8s',
      WORKBOOK_MIRROR_HOOKS_HEARTBEAT: `${origin}/ping`,
    });
    const address = await addressOf(daemon);
    expect(await statusOf(address, '/healthz')).toBe(200);
    await expect.poll(() => statusOf(address, '/readyz'), { timeout: 60_000 }).toBe(200);
    await expect.poll(() => beats.length, { timeout: 60_000 }).toBeGreaterThan(0);
    await embedded.service.close();
    await expect.poll(() => statusOf(address, '/readyz'), { timeout: 60_000 }).toBe(503);
    const before = beats.length;
    await daemon.prints(/"pass\.failed"[^\n]*\n[^]*"pass\.failed"/);
    expect(beats).toHaveLength(before);
    expect(await statusOf(address, '/healthz')).toBe(200);
    const metrics = await (await fetch(new URL('/metrics', address))).text();
    expect(metrics).toContain('workbook_mirror_ready 0');
    expect(metrics).not.toContain(embedded.settings['WORKBOOK_MIRROR_SERVICE_API_KEY']);
  });

  it('is no longer ready once its settings select unverified targets', async () => {
    const embedded = await startEmbedded();
    const file = join(await temporaryFolder(), 'config.yaml');
    await writeFile(file, 'repositories:\n  include: [Accounting]\n');
    const daemon = start(['run', '--config', file], {
      ...embedded.settings,
      WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
    });
    const address = await addressOf(daemon);
    await expect.poll(() => statusOf(address, '/readyz'), { timeout: 60_000 }).toBe(200);
    await embedded.service.close();
    await writeFile(file, 'repositories:\n  include: ["**"]\n');
    await expect.poll(() => statusOf(address, '/readyz'), { timeout: 60_000 }).toBe(503);
  });

  it('ends immediately at SIGTERM, even with open pages and during a pass', async () => {
    const embedded = await startEmbedded();
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => {
      silent.listen(0, '127.0.0.1', resolve);
    });
    onTestFinished(() => {
      silent.closeAllConnections();
      silent.close();
    });
    const { port } = silent.address() as AddressInfo;
    const daemon = start(['run'], {
      ...embedded.settings,
      ...SERVED,
      WORKBOOK_MIRROR_SERVICE_BASE_URL: `http://127.0.0.1:${port}/api`,
    });
    const address = await addressOf(daemon);
    const stream = await fetch(new URL('/api/events', address));
    expect(stream.status).toBe(200);
    daemon.child.kill('SIGTERM');
    expect((await daemon.ended).exitCode).toBe(0);
    await stream.body?.cancel().catch(() => {});
  });

  it('mirrors without its page while the port is taken, says so, and has the page when it is free', async () => {
    const embedded = await startEmbedded();
    const taken = createServer();
    await new Promise<void>((resolve) => {
      taken.listen(0, '127.0.0.1', resolve);
    });
    onTestFinished(() => {
      taken.close();
    });
    const { port } = taken.address() as AddressInfo;
    const daemon = start(['run'], {
      ...embedded.settings,
      WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *',
      WORKBOOK_MIRROR_HTTP_LISTEN: `127.0.0.1:${port}`,
    });
    await daemon.prints(/"pass\.finished"/);
    expect(await embedded.differences()).toEqual([]);
    expect(daemon.stdout()).toMatch(/"level":"warn"[^\n]*"http\.unavailable"[^\n]*http\.listen/);
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"trigger":"signal"[^\n]*\n/);
    expect(daemon.stdout().match(/"http\.unavailable"/g)).toHaveLength(1);
    taken.close();
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"http\.listening"/);
    expect(await statusOf(`http://127.0.0.1:${port}/`, '/healthz')).toBe(200);
    daemon.child.kill('SIGTERM');
    expect((await daemon.ended).exitCode).toBe(0);
  });
});
