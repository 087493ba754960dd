import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { afterAll, describe, expect, it } from 'vitest';

import { sourceLines } from '../../../../src/lib/errors/source-lines.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const folder = await temporaryFolder(afterAll);

/** The name of a call in a file of the folder. @param map the source map next to the file */
function callIn(file: string, map?: string): string {
  if (map !== undefined) writeFileSync(join(folder, `${file}.map`), map);
  return `    at work (${pathToFileURL(join(folder, file)).href}:2:3)`;
}

describe('lines of the sources', () => {
  it('replace the lines of a bundle', () => {
    // Line 2 of the bundle, from column 1 on, is line 5 of the source, from column 3 on.
    const map = { version: 3, names: [], sources: ['../src/deep/work.ts'], mappings: ';AAIE' };
    const call = callIn('work.js', JSON.stringify(map));
    const told = sourceLines(`${call}\n    at node:internal/main:1:1\n${call}`).split('\n');
    expect(told[0]).toMatch(/^ {4}at work \([^:]*src\/deep\/work\.ts:5:5\)$/);
    expect(told).toEqual([told[0], '    at node:internal/main:1:1', told[0]]);
  });

  it('are omitted without a map', () => {
    for (const call of [callIn('none.js'), callIn('torn.js', '{"version":3,'), callIn('other.js', '[]')])
      expect(sourceLines(call)).toBe(call);
  });
});
