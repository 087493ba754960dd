import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';

import { expect, it } from 'vitest';

import { runHere } from '../../../support/in-process.ts';
import { listen, makeCertificate } from '../../../support/listen.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function tlsAddress(): Promise<string> {
  return listen(createTlsServer(await makeCertificate('localhost')));
}

/** The address of a server that answers every request in the same way. */
async function answering(type: string, body: string, path = '/api'): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  return `http://${await listen(server)}${path}`;
}

it.each<[string, () => string | Promise<string>, RegExp]>([
  ['an unknown host', () => 'http://no-such-host.invalid/api', /no-such-host\.invalid/],
  ['a port at which nothing listens', () => 'http://127.0.0.1:1/api', /ECONNREFUSED[^]*service\.baseUrl/],
  ['a certificate that is not trusted', async () => `https://${await tlsAddress()}/api`, /certificate/],
  [
    'an address without /api',
    () => answering('text/html', '<html>', '/'),
    /service\.baseUrl.*\/api, and this one has no \/api/,
  ],
  ['an HTML page', () => answering('text/html', '<title>Log in</title>'), /service\.baseUrl/],
  ['another kind of JSON', () => answering('application/json', '{"message":"hello"}'), /service\.baseUrl/],
  ['nothing', () => answering('application/json', ''), /service\.baseUrl/],
])(
  'a command that meets no service fails at once and promises no further attempt: %s',
  async (_, address, text) => {
    const { exitCode, stderr } = await runHere(['sync'], {
      SERVICE_BASE_URL: await address(),
      SERVICE_API_KEY: 'a-secret-key-that-nobody-may-see',
      DIRECTORY: await temporaryFolder(),
    });
    expect(stderr).toMatch(text);
    expect(stderr).not.toMatch(/tr(?:ied|ying) again|by itself|^\s+at |a-secret-key/m);
    expect(exitCode).toBe(3);
  },
);
