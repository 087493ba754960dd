import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startBrowser } from '../chromium.ts';
import { photographPage } from './page.ts';
import { record, toCast } from './recording.ts';
import { toSvg } from './svg.ts';

const ROOT = join(import.meta.dirname, '../../../..');

/** Where README and manual have the pictures. */
export const PICTURES_FOLDER = join(ROOT, '.github/pictures');

/** The files that {@link makePictures} writes. */
export const PICTURES = ['demo.cast', 'demo.svg', 'status-dark.png', 'status-light.png'] as const;

/**
 * Makes the pictures of README and manual from the program as it is: a recording of the demo in a terminal, and its status page.
 * @throws Error when the demo fails, or `script` or the browser is missing
 */
export async function makePictures(into: string): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), 'workbook-mirror-pictures-'));
  const browser = await startBrowser();
  try {
    const surroundings = { folder: ROOT, home };
    const recording = await record('npm run demo -- --once', { columns: 100, rows: 30 }, surroundings);
    const { light, dark } = await photographPage(browser, surroundings);
    await mkdir(into, { recursive: true });
    await writeFile(join(into, 'demo.cast'), toCast(recording));
    await writeFile(join(into, 'demo.svg'), toSvg(recording));
    await writeFile(join(into, 'status-light.png'), light);
    await writeFile(join(into, 'status-dark.png'), dark);
  } finally {
    await browser.close();
    await rm(home, { recursive: true, force: true });
  }
}
