import { readdir, readFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';

import { MirrorError } from '../errors/errors.ts';
import { type BufferedBody, packableBody } from './buffered-body.ts';
import type { ReplyHeaders } from './reply.ts';

/** The files of a page, by name. */
export type PageFiles = ReadonlyMap<string, BufferedBody>;

/** The types of a page's files; any other file in the folder is not part of the page. */
const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.png', 'image/png'],
  ['.ico', 'image/x-icon'],
]);

/**
 * A browser lets the page run and show its own files and ask its own origin, and nothing else (CSP Level 3, W3C), even if a name got
 * into it unescaped.
 */
export const PAGE_HEADERS: ReplyHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Files that all pages share. They lie beside the program, as sources and when compiled. */
const SHARED_FOLDER = join(import.meta.dirname, '../page');

/**
 * Reads the files of a page, once: afterwards no path of a request ever reaches the disk.
 * @param folder of the files that only this page has
 * @param name as in "the status page"
 * @param hint for an installation that lacks them
 * @throws MirrorError `http.unusable` when they cannot be read
 */
export async function loadPage(
  folder: string,
  name: string,
  hint = 'Install workbook-mirror again.',
): Promise<PageFiles> {
  try {
    const folders = [folder, SHARED_FOLDER];
    const files = await Promise.all(
      folders.map(async (each) => (await readdir(each)).map((file) => join(each, file))),
    );
    const page = new Map((await Promise.all(files.flat().map(loadFile))).flat());
    if (!page.has('index.html')) throw new Error(`there is no index.html in ${folder}`);
    return page;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new MirrorError('http.unusable', `The files of ${name} cannot be read: ${reason}`, {
      cause: error,
      hint,
    });
  }
}

/** Reads a file; gives nothing for one that is not part of the page. */
async function loadFile(path: string): Promise<ReadonlyArray<readonly [string, BufferedBody]>> {
  const contentType = CONTENT_TYPES.get(extname(path));
  if (contentType === undefined) return [];
  const bytes = await readFile(path);
  return [[basename(path), packableBody(contentType, bytes, bytes)]];
}
