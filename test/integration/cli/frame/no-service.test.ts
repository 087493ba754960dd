import { createServer as createPlainServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';

import { describe, expect, it } from 'vitest';

import { listen, makeCertificate } from '../../../support/listen.ts';
import { run } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function sync(baseUrl: string) {
  return run(['sync'], {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
    WORKBOOK_MIRROR_DIRECTORY: await temporaryFolder(),
  });
}

async function tlsAddress(): Promise<string> {
  const certificate = await makeCertificate('localhost');
  if (certificate === null) throw new Error('openssl is missing');
  return listen(createTlsServer(certificate));
}

describe('a command that meets no service fails at once and promises no further attempt', () => {
  it.each([
    ['an unknown host', () => 'http://no-such-host.invalid/api', /no-such-host\.invalid/],
    ['a port at which nothing listens', () => 'http://127.0.0.1:1/api', /ECONNREFUSED[^]*service\.baseUrl/],
    ['a certificate that is not trusted', async () => `https://${await tlsAddress()}/api`, /certificate/],
    [
      'plain HTTP where TLS is expected',
      async () => `https://${await listen(createPlainServer())}/api`,
      /does not speak TLS/,
    ],
  ])('%s', async (_, address, text) => {
    const { exitCode, stderr } = await sync(await address());
    expect(stderr).toMatch(text);
    expect(stderr).not.toMatch(/tr(?:ied|ying) again|by itself/);
    expect(exitCode).toBe(3);
  });
});
