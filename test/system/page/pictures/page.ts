import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Browser, BrowserContext, Page } from 'playwright-core';

import { type Surroundings, variables } from './recording.ts';
import { type Pixels, toPng } from './png.ts';

/** The status page in both of its colours, as files of PNG. */
export interface PagePictures {
  readonly light: Buffer;
  readonly dark: Buffer;
}

const WIDTH = 1280;
const MARGIN = 10;

/** So many edits give the page something to show. */
const EDITS = 5;
const EDITED_WITHIN_MS = 120_000;

/** What tells one version of the page from another: names of what is shown, rather than what it was just then. */
const NAMES = 'h1, h2, th, dt, caption, summary, #pause';

/**
 * Takes pictures of the status page of a running `demo`, from its top to the end of its targets: what follows tells of this machine's disk.
 * @throws Error when the demo does not get there
 */
export async function photographPage(browser: Browser, surroundings: Surroundings): Promise<PagePictures> {
  const child = spawn(process.execPath, ['src/main.ts', 'demo'], {
    cwd: surroundings.folder,
    env: variables(surroundings),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  try {
    const address = await editedDemo(child);
    const context = await browser.newContext({
      viewport: { width: WIDTH, height: 900 },
      locale: 'en-GB',
      timezoneId: 'UTC',
    });
    const page = await context.newPage();
    await page.goto(address);
    const light = await photograph(page, 'light');
    const dark = await photograph(page, 'dark');
    await context.close();
    return { light, dark };
  } finally {
    const closed = once(child, 'close');
    if (child.kill('SIGINT')) await closed;
  }
}

/** The address of the page, once the demo has made its edits. */
async function editedDemo({ stdout, stderr }: ChildProcess): Promise<string> {
  let [told, printed] = ['', ''];
  stderr?.setEncoding('utf8').on('data', (text: string) => (told += text));
  stdout?.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const end = Date.now() + EDITED_WITHIN_MS;
  while (printed.split('\n').length <= EDITS) {
    if (Date.now() > end) throw new Error(`the demo did not make ${EDITS} edits:\n${told}${printed}`);
    await sleep(100);
  }
  const [address] = /http:\S+\/$/m.exec(told) ?? [];
  if (address === undefined) throw new Error(`the demo does not say where its page is:\n${told}`);
  return address;
}

async function photograph(page: Page, colorScheme: 'light' | 'dark'): Promise<Buffer> {
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
  await page
    .locator('#pass-now')
    .getByText(/^(?:due|\d:\d\d)$/)
    .waitFor();
  const targets = await page.locator('#targets').boundingBox();
  if (targets === null) throw new Error('the page shows no targets');
  const height = Math.ceil(targets.y + targets.height + MARGIN);
  const shot = await page.screenshot({ fullPage: true, clip: { x: 0, y: 0, width: WIDTH, height } });
  const names = await page.locator(NAMES).filter({ visible: true }).allInnerTexts();
  return toPng(await pixelsOf(page.context(), shot), names.map(nameOf).join('\n'));
}

/** A name without what counts and what only decorates. */
function nameOf(text: string): string {
  return text
    .replaceAll(/\d+|[\n↑↓]/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

/** What the browser makes of a picture. */
export async function pixelsOf(context: BrowserContext, png: Buffer): Promise<Pixels> {
  const blank = await context.newPage();
  try {
    const { width, height, text } = await blank.evaluate(
      async (address) => {
        const image = new Image();
        image.src = address;
        await image.decode();
        const { width, height } = image;
        const drawing = new OffscreenCanvas(width, height).getContext('2d');
        drawing?.drawImage(image, 0, 0);
        const bytes = drawing?.getImageData(0, 0, width, height).data ?? new Uint8ClampedArray();
        const parts = [];
        for (let at = 0; at < bytes.length; at += 32_768)
          parts.push(String.fromCharCode(...bytes.subarray(at, at + 32_768)));
        return { width, height, text: btoa(parts.join('')) };
      },
      `data:image/png;base64,${png.toString('base64')}`,
    );
    return { width, height, bytes: Buffer.from(text, 'base64') };
  } finally {
    await blank.close();
  }
}
