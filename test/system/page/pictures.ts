import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { startBrowser } from './chromium.ts';

const ROOT = join(import.meta.dirname, '../../..');
const WIDTH = 1280;
const MARGIN = 10;
/** So many edits make a lively picture. */
const EDITS = 5;

/** The environment of a program in a picture, without this machine's settings. */
function variablesIn(home: string): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: home, TMPDIR: '/tmp', LC_ALL: 'C.UTF-8', TZ: 'UTC' };
}

/**
 * Makes the pictures of README and manual from the current program: the output of the demo, and its status page in both colour schemes.
 * @param edits of the demo before a picture is taken
 * @throws Error if the demo fails or the browser is missing
 */
export async function makePictures(into: string, edits = EDITS): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), 'workbook-mirror-pictures-'));
  try {
    await mkdir(into, { recursive: true });
    const options = { cwd: ROOT, env: variablesIn(home), encoding: 'utf8' } as const;
    const printed = execFileSync('sh', ['-c', 'npm run --silent demo -- --once 2>&1'], options);
    await writeFile(
      join(into, 'demo.svg'),
      svgOf(['$ npm run demo -- --once', ...printed.trimEnd().split('\n')]),
    );
    await photographPage(into, home, edits);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

const CELL_WIDTH = 8.4;
const LINE_HEIGHT = 20;
const PADDING = 16;

/** Lines of a terminal as a picture with its own background, readable on light and dark pages. */
export function svgOf(lines: readonly string[]): string {
  const escaped = (text: string): string =>
    // Some viewers merge consecutive spaces.
    text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll(' ', '\u00a0');
  const width = Math.ceil(Math.max(...lines.map(({ length }) => length)) * CELL_WIDTH + 2 * PADDING);
  const height = lines.length * LINE_HEIGHT + 2 * PADDING;
  const texts = lines.map(
    (line, row) => `<text x="${PADDING}" y="${PADDING + row * LINE_HEIGHT + 14}">${escaped(line)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<style>text { font: 14px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d1d7e0 }</style>
<rect width="${width}" height="${height}" rx="8" fill="#151b23"/>
${texts.join('\n')}
</svg>
`;
}

/** Takes pictures of the status page of a running demo, up to the end of its targets: the rest is about this machine's disk. */
async function photographPage(into: string, home: string, edits: number): Promise<void> {
  const browser = await startBrowser();
  const demo = spawn(process.execPath, ['src/main.ts', 'demo'], {
    cwd: ROOT,
    env: variablesIn(home),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  try {
    const address = await editedDemo(demo, edits);
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await browser.newPage({
        viewport: { width: WIDTH, height: 900 },
        locale: 'en-GB',
        timezoneId: 'UTC',
        reducedMotion: 'reduce',
        colorScheme,
      });
      await page.goto(address);
      await page
        .locator('#pass-now')
        .getByText(/^(?:due|\d:\d\d)$/)
        .waitFor();
      const targets = await page.locator('#targets').boundingBox();
      if (targets === null) throw new Error('the page shows no targets');
      const clip = { x: 0, y: 0, width: WIDTH, height: Math.ceil(targets.y + targets.height + MARGIN) };
      await page.screenshot({ fullPage: true, clip, path: join(into, `status-${colorScheme}.png`) });
      await page.close();
    }
  } finally {
    await browser.close();
    const closed = once(demo, 'close');
    if (demo.kill('SIGINT')) await closed;
  }
}

/** Waits for some edits of the demo. @returns the address of the page */
async function editedDemo({ stdout, stderr }: ChildProcess, most: number): Promise<string> {
  let said = '';
  stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
  let edits = 0;
  if (stdout !== null)
    for await (const _ of createInterface({ input: stdout })) if ((edits += 1) > most) break;
  const [address] = /http:\S+\/$/m.exec(said) ?? [];
  if (address === undefined) throw new Error(`the demo does not say where its page is:\n${said}`);
  return address;
}

if (import.meta.main) {
  await makePictures(process.argv[2] ?? join(ROOT, '.github/pictures'));
}
