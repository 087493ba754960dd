import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Server, Socket } from 'node:net';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';

import { onTestFinished } from 'vitest';

import { temporaryFolder } from './temporary.ts';

const run = promisify(execFile);

/** Listens until the running test ends. @returns the address */
export async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {})));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `localhost:${(server.address() as AddressInfo).port}`;
}

/** Sends a request on its own connection, with just the given headers. */
export async function ask(
  { port }: { readonly port: number },
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = 'GET',
) {
  const asked = request({ host: '127.0.0.1', port, path, method, headers, agent: false }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const bytes = Buffer.concat(await response.toArray());
  return { status: response.statusCode, headers: response.headers, bytes, text: bytes.toString() };
}

/**
 * Receives requests until the running test ends.
 * @param answer returns the status of the answer by the number of requests so far, or null if it answers itself
 */
export async function startReceiver(
  answer: (count: number, response: ServerResponse) => number | null = () => 204,
) {
  const received: { method: string; url: string; headers: IncomingHttpHeaders; body: string }[] = [];
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      received.push({ method, url, headers, body });
      const status = answer(received.length, response);
      if (status !== null) response.writeHead(status).end();
    });
  });
  return { origin: `http://${await listen(server)}`, received };
}

/** A certificate for a name, with its own authority. */
export type TestCertificate = Awaited<ReturnType<typeof makeCertificate>>;

/** Makes a certificate by openssl. */
export async function makeCertificate(name: string) {
  const cwd = await temporaryFolder();
  await run(
    'openssl',
    (
      `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=${name}` +
      ` -addext subjectAltName=DNS:${name} -keyout key.pem -out cert.pem`
    ).split(' '),
    { cwd },
  );
  const [keyFile, certFile] = [join(cwd, 'key.pem'), join(cwd, 'cert.pem')];
  const [key, cert] = await Promise.all([readFile(keyFile, 'utf8'), readFile(certFile, 'utf8')]);
  return { key, cert, keyFile, certFile };
}

/** Trusts only this certificate until the test is over. */
export function trust(cert: string): void {
  const before = getCACertificates();
  setDefaultCACertificates([cert]);
  onTestFinished(() => setDefaultCACertificates(before));
}
