import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { MirrorError } from '../errors/errors.ts';
import { PROGRAM_FOLDER } from '../process/program-folder.ts';
import { type BufferedBody, packableBody, type ReplyHeaders } from './reply.ts';

/** The files of a page, by their paths below the program's folder; the start page is `index.html`. */
export type PageFiles = ReadonlyMap<string, BufferedBody>;

/** The types of a page's files; any other file in the folder is not part of the page. */
const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
]);

/**
 * A browser lets the page run and show its own files and send requests to its own origin, and nothing else (CSP Level 3, W3C), even
 * if an unescaped name got into it.
 */
export const PAGE_HEADERS: ReplyHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** The folder of the files that pages share, below the program's. */
const SHARED_FOLDER = 'lib/page';

/**
 * Reads the files of a page, once: afterwards no path of a request ever reaches the disk. They keep their paths below the program's
 * folder, so that a page's scripts find the shared files in a browser as they do here.
 * @param folder of the files that only this page has, below the program's
 * @param name as in "the status page"
 * @throws MirrorError `http.unusable` if they cannot be read
 */
export async function loadPage(folder: string, name: string): Promise<PageFiles> {
  try {
    const program = fileURLToPath(PROGRAM_FOLDER);
    const page = new Map<string, BufferedBody>();
    const load = async (of: string): Promise<void> => {
      for (const file of await readdir(join(program, of))) {
        const contentType = CONTENT_TYPES.get(extname(file));
        if (contentType === undefined) continue;
        const bytes = await readFile(join(program, of, file));
        page.set(`${of}/${file}`, packableBody(contentType, bytes, bytes));
      }
    };
    await Promise.all([folder, SHARED_FOLDER].map(load));
    const index = page.get(`${folder}/index.html`);
    if (index === undefined) throw new Error(`there is no index.html in ${folder}`);
    return page.set('index.html', index);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new MirrorError('http.unusable', `The files of ${name} cannot be read: ${reason}`, {
      cause: error,
      hint: 'Install workbook-mirror again.',
    });
  }
}
