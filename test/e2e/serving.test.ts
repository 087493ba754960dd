import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { addressOf, start } from '../support/program.ts';

const SERVED = {
  WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
  WORKBOOK_MIRROR_SCHEDULE: '* * * * * *',
};

describe('the daemon, asked over HTTP', () => {
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
});
