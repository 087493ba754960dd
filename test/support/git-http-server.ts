import { spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';

import { parseHead } from '../../src/server/git/http-backend.ts';
import { listen, type TestCertificate } from './listen.ts';

/** A Git server over HTTP like those of hosters: git http-backend behind Basic authentication. */
export interface GitHttpServer {
  /** By default `http://127.0.0.1:<port>`. */
  readonly origin: string;
  readonly port: number;
  /** Every request, as `METHOD target`, with its Authorization. */
  readonly requests: Array<{ readonly line: string; readonly authorization: string | undefined }>;
  /** Answers instead of Git if it returns true. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>;
}

/** Writes the answer of a CGI program (RFC 3875, section 6) as HTTP. */
function relay(output: Buffer, response: ServerResponse): void {
  const end = output.indexOf('\r\n\r\n');
  const { status, headers } = parseHead(output.toString('latin1', 0, end));
  response.writeHead(status, headers).end(output.subarray(end + 4));
}

async function answerByGit(root: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://host');
  const { headers } = request;
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  request.pipe(child.stdin.on('error', () => {}));
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) chunks.push(chunk);
  relay(Buffer.concat(chunks), response);
}

/**
 * Serves the bare repositories below a folder; it ends with the running test.
 * @param credentials the required `user:password`; none if left out
 * @param tls without it, the server takes bare HTTP
 */
export async function startGitHttpServer(
  root: string,
  credentials?: string,
  tls?: TestCertificate,
): Promise<GitHttpServer> {
  const expected =
    credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`;
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const { authorization } = request.headers;
    served.requests.push({ line: `${request.method} ${request.url}`, authorization });
    void (async () => {
      if (await served.intercept(request, response)) return;
      if (expected !== undefined && authorization !== expected) {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
        return;
      }
      await answerByGit(root, request, response);
    })();
  };
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  const port = Number((await listen(server)).split(':')[1]);
  const served: GitHttpServer = {
    origin: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    requests: [],
    intercept: () => false,
  };
  return served;
}
