import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';

import { listen } from './listen.ts';

/**
 * An object store in memory, with the part of the S3 protocol that rclone needs: each object appears whole, and several objects never change
 * together. It accepts any signature.
 */
export interface ObjectStore {
  /** The stored objects, by key. */
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** `localhost:PORT` */
  readonly address: string;
}

interface StoredObject {
  readonly bytes: Buffer;
  /** Headers that are returned unchanged. */
  readonly metadata: Readonly<Record<string, string>>;
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (sign) => ESCAPES[sign] ?? sign);
}

function tagOf({ bytes }: StoredObject): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

/** All keys of a prefix, or those at its first level and the folders there (ListObjects). */
function listingOf(stored: ReadonlyMap<string, StoredObject>, query: URLSearchParams): string {
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const folders = new Set<string>();
  const entries: string[] = [];
  for (const [key, object] of [...stored].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!key.startsWith(prefix)) continue;
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    if (end >= 0) folders.add(key.slice(0, end + 1));
    else
      entries.push(
        `<Contents><Key>${escaped(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>` +
          `<ETag>${escaped(tagOf(object))}</ETag><Size>${object.bytes.length}</Size></Contents>`,
      );
  }
  for (const folder of folders)
    entries.push(`<CommonPrefixes><Prefix>${escaped(folder)}</Prefix></CommonPrefixes>`);
  return `<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`;
}

function metadataOf(headers: IncomingHttpHeaders): Record<string, string> {
  const metadata = Object.entries(headers).filter(([name]) => name.startsWith('x-amz-meta-'));
  return Object.fromEntries(metadata.map(([name, value]) => [name, String(value)]));
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}

/**
 * Starts an object store until the running test ends.
 * @param onStored called after each stored object, before the answer
 */
export async function startObjectStore(
  onStored: (store: ObjectStore, key: string) => void,
): Promise<ObjectStore> {
  const stored = new Map<string, StoredObject>();
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
      const key = decodeURIComponent(pathname).split('/').slice(2).join('/');
      const bytes = await bodyOf(request);
      if (request.method === 'PUT') {
        const object = { bytes, metadata: metadataOf(request.headers) };
        stored.set(key, object);
        onStored(store, key);
        response.writeHead(200, { etag: tagOf(object) }).end();
      } else if (request.method === 'DELETE') {
        stored.delete(key);
        response.writeHead(204).end();
      } else if (key === '') {
        response.writeHead(200, { 'content-type': 'application/xml' }).end(listingOf(stored, searchParams));
      } else {
        const object = stored.get(key);
        response.writeHead(object === undefined ? 404 : 200, {
          'content-length': object?.bytes.length ?? 0,
          'last-modified': new Date(0).toUTCString(),
          ...object?.metadata,
          etag: object === undefined ? '' : tagOf(object),
        });
        response.end(request.method === 'HEAD' ? undefined : object?.bytes);
      }
    })();
  });
  const store: ObjectStore = { objects: stored, address: await listen(server) };
  return store;
}
