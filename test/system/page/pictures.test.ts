import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasProgram } from '../../support/terminal-shell.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import { startBrowser, whyNoBrowser } from './chromium.ts';
import { pixelsOf } from './pictures/page.ts';
import { makePictures, PICTURES, PICTURES_FOLDER } from './pictures/pictures.ts';
import { readPng } from './pictures/png.ts';
import { fromCast } from './pictures/recording.ts';
import { lastScreen, play } from './pictures/screen.ts';

const missing = whyNoBrowser() ?? (hasProgram('script') ? undefined : 'script is missing (package bsdutils)');

const OUTDATED = 'The stored pictures are of another version of the program: `npm run pictures`';

/** So large is what README and manual may have a reader load. */
const MOST_BYTES = 200_000;

/** What the demo ended with, without what each run has of its own: times, sizes, ports, its folder, who was first, which edit. */
function gistOf(cast: string): string[] {
  const text = lastScreen(play({ ...fromCast(cast), columns: 1000 }));
  return text
    .map((line) =>
      line
        .replaceAll(/\d+(?:\.\d+)? (?:ms|s|min|[kM]?B)\b/g, 'SOME')
        .replaceAll(/:\d{4,5}\b/g, ':PORT')
        .replaceAll(/-demo-\w+/g, '-demo')
        .replace(/^(?:added|changed|deleted|renamed|moved) .*: pulled/, 'EDIT: pulled')
        .replaceAll(/\d+ files? published \([\w-]+\)/g, 'FILES'),
    )
    .sort();
}

/** The average of all brightness, from 0 to 255. */
async function brightness(browser: Browser, png: Buffer): Promise<number> {
  const context = await browser.newContext();
  const { bytes } = await pixelsOf(context, png);
  await context.close();
  return bytes.reduce((sum, byte, at) => (at % 4 === 3 ? sum : sum + byte), 0) / ((bytes.length * 3) / 4);
}

describe.skipIf(missing !== undefined)(
  `the pictures of README and manual${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    let browser: Browser;
    let folder: string;
    const undo: (() => Promise<void> | void)[] = [];
    const made = (name: (typeof PICTURES)[number]): Promise<Buffer> => readFile(join(folder, name));
    const stored = (name: (typeof PICTURES)[number]): Promise<Buffer> =>
      readFile(join(PICTURES_FOLDER, name));

    beforeAll(async () => {
      browser = await startBrowser();
      folder = await temporaryFolder((each) => undo.push(each));
      await makePictures(folder);
    });
    afterAll(async () => {
      await browser.close();
      for (const each of undo) await each();
    });

    it('show the demo to its end', async () => {
      const lines = lastScreen(play(fromCast(String(await made('demo.cast')))));
      expect(lines.at(0)).toBe('$ npm run demo -- --once');
      expect(lines.at(-1)).toMatch(/^The mirror is identical to Git, byte for byte: 6 branches, /);
      const svg = String(await made('demo.svg'));
      for (const line of lines)
        expect(svg).toContain(line.slice(0, 20).replaceAll(' ', '\u00a0').replaceAll('>', '&gt;'));
      const page = await browser.newPage();
      await page.setContent(svg);
      expect(await page.locator('svg text.stays').last().textContent()).toBe(
        lines.at(-1)?.replaceAll(' ', '\u00a0'),
      );
      await page.close();
    });

    it('show the page in its light and its dark colours', async () => {
      const [light, dark] = await Promise.all([made('status-light.png'), made('status-dark.png')]);
      for (const { width, height, words } of [readPng(light), readPng(dark)]) {
        expect(width).toBe(1280);
        expect(height).toBeGreaterThan(700);
        expect(words).toContain('Ready\n');
        expect(words).toContain('Accounting main\n');
      }
      const [bright, dim] = [await brightness(browser, light), await brightness(browser, dark)];
      expect(bright).toBeGreaterThan(200);
      expect(bright).toBeLessThan(254);
      expect(dim).toBeLessThan(60);
      expect(dim).toBeGreaterThan(2);
    });

    it('are small, and tell nothing of the machine that they were made on', async () => {
      for (const name of PICTURES)
        expect((await stat(join(PICTURES_FOLDER, name))).size, name).toBeLessThan(MOST_BYTES);
      const told = lastScreen(play(fromCast(String(await made('demo.cast'))))).join('\n');
      for (const [path] of told.matchAll(/(?<= )\/\S+/g))
        expect(path).toMatch(/^\/tmp\/workbook-mirror-demo-/);
      for (const [, host] of told.matchAll(/:\/\/([^/:]+)/g)) expect(host).toBe('127.0.0.1');
    });

    it('are stored as this version of the program makes them', async () => {
      expect(gistOf(String(await stored('demo.cast'))), OUTDATED).toEqual(
        gistOf(String(await made('demo.cast'))),
      );
      for (const name of ['status-light.png', 'status-dark.png'] as const)
        expect(readPng(await stored(name)).words, OUTDATED).toBe(readPng(await made(name)).words);
    });
  },
);
