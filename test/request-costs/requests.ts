import { KEY, type ServerName, TOKEN } from './servers.ts';

/** A request that is measured. */
export interface MeasuredRequest {
  readonly name: string;
  readonly to: ServerName;
  readonly bytes: string | Buffer;
}

/** What there is room for in the head of a request, of which Node reads 16 KiB, and in a path, beside all else that stands there. */
const HEADER_ROOM = 15_600;
const PATH_ROOM = 13_000;

const COMMON = 'Host: 127.0.0.1\r\n';
const WITH_KEY = `X-API-KEY: ${KEY}\r\n`;
const WITH_TOKEN = `Authorization: Bearer ${TOKEN}\r\n`;

function head(line: string, ...headers: readonly string[]): string {
  const given = headers.join('');
  return `${line} HTTP/1.1\r\n${/^host:/im.test(given) ? '' : COMMON}${given}\r\n`;
}

/** As many of a text as there is room for. */
function filled(text: string, roomBytes = HEADER_ROOM): string {
  return text.repeat(Math.floor(roomBytes / text.length));
}

function body(bytes: string | Buffer, line: string, ...headers: readonly string[]): Buffer {
  const sizeBytes = Buffer.byteLength(bytes);
  return Buffer.concat([
    Buffer.from(head(line, ...headers, `Content-Length: ${sizeBytes}\r\n`)),
    Buffer.from(bytes),
  ]);
}

type Row = readonly [name: string, bytes: string | Buffer];

/** What stands in a path. */
const PATHS: readonly Row[] = [
  ['contents/contents/…', filled('/contents', PATH_ROOM)],
  ['a/a/…', filled('/a', PATH_ROOM)],
  ['////…', filled('/', PATH_ROOM)],
  ['%41%41…', `/${filled('%41', PATH_ROOM)}`],
  ['%ff%ff…', `/${filled('%ff', PATH_ROOM)}/contents`],
  ['%2f%2f…', `/${filled('%2f', PATH_ROOM)}/contents`],
  ['%25%25…', `/${filled('%25', PATH_ROOM)}/contents`],
  ['.git/.git/…', filled('/.git', PATH_ROOM)],
  ['info/refs/info/refs…', filled('/info/refs', PATH_ROOM)],
  ['?&&&…', `?${filled('&')}`],
  ['?&a&a…', `?${filled('&a')}`],
  ['?&q=%25…', `?${filled('&q=%25')}`],
  ['?%41…', `?q=${filled('%41')}`],
];

const HEADERS: readonly Row[] = [
  ['2000 headers', filled('a: \r\n')],
  ['If-None-Match "","",…', `If-None-Match: ${filled('"",')}\r\n`],
  ['If-None-Match ,,,…', `If-None-Match: ${filled(',')}\r\n`],
  ['If-Match W/"W/"…', `If-Match: ${filled('W/"')}\r\n`],
  ['Range bytes=(spaces)', `Range: bytes=${filled(' ')}x\r\n`],
  ['Range 0-0,0-0,…', `Range: bytes=0-0${filled(',0-0')}\r\n`],
  ['Accept-Encoding ,,,…', `Accept-Encoding: ${filled(',')}\r\n`],
  ['Accept-Encoding a;q,…', `Accept-Encoding: ${filled('a;q,')}\r\n`],
  ['Host xn--aaa…', `Host: xn--${filled('a')}\r\n`],
  ['Host a.a.a.…', `Host: ${filled('a.')}\r\n`],
  ['Authorization basic (spaces)', `Authorization: basic${filled(' ')}\r\n`],
  ['Authorization basic aaa…', `Authorization: basic ${filled('a')}=\r\n`],
  ['Cookie a=a;…', `Cookie: ${filled('a=a;')}\r\n`],
];

const SERVE_PATHS = ['/api/repos', '/api/v1/workbooks', '/uploads', '/git', ''];

function inPaths(to: ServerName, starts: readonly string[], more: string): MeasuredRequest[] {
  return starts.flatMap((start) =>
    PATHS.map(([name, text]) => {
      const target = start + String(text);
      const line = target.startsWith('/') ? target : `/${target}`;
      return { to, name: `GET ${start}${name}`, bytes: head(`GET ${line}`, more) };
    }),
  );
}

function inHeaders(to: ServerName, paths: readonly string[], more: string): MeasuredRequest[] {
  return paths.flatMap((path) =>
    HEADERS.map(([name, text]) => ({
      to,
      name: `GET ${path}, ${name}`,
      bytes: head(`GET ${path}`, String(text), more),
    })),
  );
}

const METHODS = ['HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE', 'PROPFIND', 'POST'];

function inMethods(to: ServerName, paths: readonly string[], more: string): MeasuredRequest[] {
  return paths.flatMap((path) =>
    METHODS.map((method) => ({ to, name: `${method} ${path}`, bytes: head(`${method} ${path}`, more) })),
  );
}

/** Bodies that nobody asked for, and webhooks. */
function bodies(to: ServerName): MeasuredRequest[] {
  const signed = `X-Hub-Signature-256: sha256=${'0'.repeat(64)}\r\n`;
  const form = 'Content-Type: application/x-www-form-urlencoded\r\n';
  const size = 1024 * 1024;
  const rows: Row[] = [
    ['POST /api/repos, 1 MiB', body(Buffer.alloc(size, 'x'), 'POST /api/repos')],
    ['POST /api/webhooks/push, 1 MiB', body(Buffer.alloc(size, 'x'), 'POST /api/webhooks/push')],
    [
      'POST /api/webhooks/push, 1 MiB, bad signature',
      body(Buffer.alloc(size, 'x'), 'POST /api/webhooks/push', signed),
    ],
    [
      'POST /api/webhooks/push, a form of 1 MiB, bad signature',
      body(
        Buffer.concat([Buffer.from('payload='), Buffer.alloc(size, '%7B')]),
        'POST /api/webhooks/push',
        signed,
        form,
      ),
    ],
    [
      'POST /api/webhooks/push, 100 bytes, bad signature',
      body(Buffer.alloc(100, 'x'), 'POST /api/webhooks/push', signed),
    ],
    [
      'POST /api/repos, chunks of 1 byte, 200 kB',
      Buffer.from(
        `${head('POST /api/repos', 'Transfer-Encoding: chunked\r\n')}${'1\r\nx\r\n'.repeat(33_333)}0\r\n\r\n`,
      ),
    ],
  ];
  return rows.map(([name, bytes]) => ({ to, name, bytes }));
}

/** The requests that all others are compared with. */
export function plainRequest(to: ServerName, isAuthorised: boolean): MeasuredRequest {
  if (to === 'serve' || to === 'replica') {
    return { to, name: 'GET /api/repos', bytes: head('GET /api/repos', isAuthorised ? WITH_KEY : '') };
  }
  const credential = isAuthorised ? WITH_TOKEN : '';
  return { to, name: 'GET /metrics', bytes: head('GET /metrics', credential) };
}

/** Everything that is tried. @param isAuthorised whether each request carries what opens the server */
export function hostileRequests(to: ServerName, isAuthorised: boolean): MeasuredRequest[] {
  if (to === 'serve' || to === 'replica') {
    const key = isAuthorised ? WITH_KEY : 'X-API-KEY: wrong\r\n';
    const paths = [
      '/api/repos',
      '/api/repos/Accounting/contents/overview.txt',
      '/',
      '/page/page.js',
      '/git/Accounting.git/info/refs?service=git-upload-pack',
    ];
    return [
      ...inPaths(to, SERVE_PATHS, key),
      ...inHeaders(to, isAuthorised ? paths.slice(0, 1) : paths, key),
      ...inMethods(to, ['/api/repos', '/', '/api/webhooks/push', '/nothing'], key),
      { to, name: 'GET http://x/api/repos', bytes: head('GET http://x/api/repos', key) },
      { to, name: `GET http://aaa…/`, bytes: head(`GET http://${filled('a')}/`, key) },
      ...(isAuthorised ? [] : bodies(to)),
    ];
  }
  const token = isAuthorised ? WITH_TOKEN : '';
  return [
    ...inPaths(to, ['', '/page', '/api/status', '/readyz'], token),
    ...inHeaders(to, ['/', '/readyz', '/healthz', '/metrics', '/api/status', '/page/page.js'], token),
    ...inMethods(to, ['/', '/api/status', '/readyz'], token),
    ...['/', '/readyz', '/healthz', '/metrics', '/api/status', '/api/schema', '/page/page.js'].flatMap(
      (path) => [
        { to, name: `GET ${path}`, bytes: head(`GET ${path}`, token) },
        { to, name: `GET ${path}, gzip`, bytes: head(`GET ${path}`, token, 'Accept-Encoding: gzip\r\n') },
      ],
    ),
    { to, name: 'POST /, 1 MiB', bytes: body(Buffer.alloc(1024 * 1024, 'x'), 'POST /') },
  ];
}
