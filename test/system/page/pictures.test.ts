import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { temporaryFolder } from '../../support/temporary.ts';
import { whyNoBrowser } from './chromium.ts';
import { makePictures } from './pictures.ts';

const missing = whyNoBrowser();

it.skipIf(missing !== undefined)(
  `makes the pictures of README and manual${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  async () => {
    const folder = await temporaryFolder();
    await makePictures(folder, 1);
    const svg = await readFile(join(folder, 'demo.svg'), 'utf8');
    expect(svg).toContain('identical\u00a0to\u00a0Git,\u00a0byte\u00a0for\u00a0byte');
    const [light, dark] = await Promise.all(
      ['light', 'dark'].map((scheme) => readFile(join(folder, `status-${scheme}.png`))),
    );
    for (const picture of [light, dark]) {
      // Width and height, from the header of a PNG.
      expect(picture?.readUInt32BE(16)).toBe(1280);
      expect(picture?.readUInt32BE(20)).toBeGreaterThan(700);
    }
    expect(light).not.toEqual(dark);
  },
);
