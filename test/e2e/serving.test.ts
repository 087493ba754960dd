import { createServer } from 'node:http';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { listen } from '../support/listen.ts';
import { addressOf, start } from '../support/program.ts';

describe('the daemon, asked over HTTP', () => {
  it('ends immediately at SIGTERM, even with open pages and during a pass', async () => {
    const embedded = await startEmbedded();
    const daemon = start(['run'], {
      ...embedded.settings,
      WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
      WORKBOOK_MIRROR_SERVICE_BASE_URL: `http://${await listen(createServer(() => {}))}/api`,
    });
    const address = await addressOf(daemon);
    const stream = await fetch(new URL('/api/events', address));
    expect(stream.status).toBe(200);
    expect((await daemon.stop()).exitCode).toBe(0);
    await stream.body?.cancel().catch(() => {});
  });
});
