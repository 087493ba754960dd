import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { renderSettingsTable } from '../../src/config/render.ts';
import { ERROR_RULES } from '../../src/lib/errors/errors.ts';

const readme = await readFile(join(import.meta.dirname, '../../README.md'), 'utf8');

describe('the README', () => {
  it('has the table of settings as the schema has it', async () => {
    const [before = '', rest = ''] = readme.split(/(?<=<!-- settings: [^\n]*\n)/);
    const [, after = ''] = rest.split(/(?=<!-- end of settings -->)/);
    const expected = `${before}${renderSettingsTable().trimEnd()}\n${after}`;
    await expect(expected).toMatchFileSnapshot('../../README.md');
  });

  it('has every exit code that an error can end with', () => {
    for (const { exitCode } of Object.values(ERROR_RULES))
      expect(readme).toMatch(new RegExp(`^\\| ${exitCode} +\\|`, 'm'));
  });
});
