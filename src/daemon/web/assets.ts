import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';

import { MirrorError } from '../../lib/errors/errors.ts';
import { type Body, createBody } from './body.ts';

/** The kinds of files that a page is made of; any other file of the folder is none of the page's. */
const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.png', 'image/png'],
  ['.ico', 'image/x-icon'],
]);

/**
 * Reads the files of the status page, once: afterwards no path of a request ever reaches the disk.
 * @returns the files by their paths in addresses: `/` is `index.html`, `/page/NAME` is any of them
 * @throws MirrorError `http.unusable` when the page is not there
 */
export async function loadAssets(folders: readonly string[]): Promise<ReadonlyMap<string, Body>> {
  try {
    const names = await Promise.all(
      folders.map(async (folder) => (await readdir(folder)).map((name) => ({ folder, name }))),
    );
    const entries = await Promise.all(names.flat().map(({ folder, name }) => loadAsset(folder, name)));
    const assets = new Map(entries.flat());
    const index = assets.get('/page/index.html');
    if (index === undefined) throw new Error(`there is no index.html in ${folders.join(' or ')}`);
    return assets.set('/', index);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new MirrorError('http.unusable', `The files of the status page cannot be read: ${reason}`, {
      cause: error,
      hint: 'Install workbook-mirror again; with http.listen off it runs without the page.',
    });
  }
}

/** Gives a file with its path in addresses; nothing for one that is none of the page's. */
async function loadAsset(folder: string, name: string): Promise<readonly (readonly [string, Body])[]> {
  const contentType = CONTENT_TYPES.get(extname(name));
  if (contentType === undefined) return [];
  const bytes = await readFile(join(folder, name));
  return [[`/page/${name}`, createBody(contentType, bytes, bytes.toString('latin1'))]];
}
