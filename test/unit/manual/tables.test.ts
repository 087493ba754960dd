import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { settingDescriptors } from '../../../src/config/descriptors.ts';
import { ERROR_RULES } from '../../../src/lib/errors/errors.ts';
import { renderSettingsTable } from '../../support/settings-texts.ts';

const MANUAL = join(import.meta.dirname, '../../../src/manual');
const settings = await readFile(join(MANUAL, 'settings.md'), 'utf8');
const commands = await readFile(join(MANUAL, 'commands.md'), 'utf8');

describe('the manual', () => {
  it('has the table of settings from the schema', async () => {
    const [before = '', rest = ''] = settings.split(/(?<=<!-- settings: [^\n]*\n)/);
    const [, after = ''] = rest.split(/(?=<!-- end of settings -->)/);
    const expected = `${before}${renderSettingsTable().trimEnd()}\n${after}`;
    await expect(expected).toMatchFileSnapshot('../../../src/manual/settings.md');
  });

  it('names every setting', () => {
    const names = settingDescriptors.map(({ name }) => name);
    expect(names.filter((name) => !settings.includes(`\`${name}\``))).toEqual([]);
  });

  it('has the exit code of every error', () => {
    for (const { exitCode } of Object.values(ERROR_RULES))
      expect(commands).toMatch(new RegExp(`^\\| ${exitCode} +\\|`, 'm'));
  });
});
