import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { extname, join } from 'node:path';

import { MirrorError } from '../../lib/errors/errors.ts';
import type { Answer } from './answer.ts';
import { matchesTag } from '../../lib/http/reply.ts';
import { RequestError } from '../../lib/http/request-error.ts';

/** A file of a page. */
interface PageFile {
  readonly contentType: string;
  readonly bytes: Uint8Array;
  /** Strong entity tag (RFC 9110, section 8.8.3). */
  readonly etag: string;
}

/** The files of a page, by name. */
export type PageFiles = ReadonlyMap<string, PageFile>;

/** The kinds of files that a page is made of; any other file of the folder is none of the page's. */
const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
]);

/**
 * What a browser lets the page do: run and show its own files, ask its own origin, and nothing else. No other page can
 * frame it, or keep a hold of its window.
 */
const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // Asked for each time, so that a newer version is shown at once.
  'cache-control': 'no-cache',
};

/**
 * Reads the files of a page, once: afterwards no path of a request ever reaches the disk.
 * @throws MirrorError `http.unusable` when they are not there
 */
export async function loadPage(folders: readonly string[]): Promise<PageFiles> {
  try {
    const names = await Promise.all(
      folders.map(async (folder) => (await readdir(folder)).map((name) => ({ folder, name }))),
    );
    const known = names.flat().filter(({ name }) => CONTENT_TYPES.has(extname(name)));
    const files = new Map(await Promise.all(known.map(({ folder, name }) => loadFile(folder, name))));
    if (!files.has('index.html')) throw new Error(`there is no index.html in ${folders.join(' or ')}`);
    return files;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new MirrorError('http.unusable', `The files of the page for uploads cannot be read: ${reason}`, {
      cause: error,
      hint: 'Install workbook-mirror again.',
    });
  }
}

async function loadFile(folder: string, name: string): Promise<[string, PageFile]> {
  const bytes = await readFile(join(folder, name));
  const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`;
  return [name, { contentType: CONTENT_TYPES.get(extname(name)) ?? 'application/octet-stream', bytes, etag }];
}

/**
 * Answers a request for a file of the page.
 * @param files null for a service without a page
 * @throws RequestError 404 for a file that is none of the page's
 */
export function answerPage(files: PageFiles | null, name: string, headers: IncomingHttpHeaders): Answer {
  const file = files?.get(name);
  if (file === undefined)
    throw new RequestError(404, 'not_found', 'there is no page here: the API is below /api');
  const { contentType, bytes, etag } = file;
  if (matchesTag(headers['if-none-match'], etag))
    return { kind: 'bare', status: 304, headers: { ...PAGE_HEADERS, etag } };
  return {
    kind: 'bytes',
    status: 200,
    headers: { ...PAGE_HEADERS, 'content-type': contentType, etag },
    body: bytes,
  };
}
