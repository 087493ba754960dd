import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { startFake } from '../support/started-fake.ts';
import { cleanEnvironment, hasProgram } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const ROOT = join(import.meta.dirname, '../..');
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

/** A block of the README below "Five minutes", as people copy it. */
function blockOf(language: string): string {
  const [, section = ''] = /^## Five minutes([^]*?)^## /m.exec(README) ?? [];
  const [, block = ''] = new RegExp(`^ *\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, 'm').exec(section) ?? [];
  return block.replaceAll(/^ {3}/gm, '');
}

const CHAPTERS = join(ROOT, 'src/manual');

const hasNpx = hasProgram('npx');

describe('the README', () => {
  it.skipIf(!hasNpx)(
    `has commands that make a mirror in a clone${hasNpx ? '' : ' (skipped: no npx)'}`,
    async () => {
      const service = await startFake();
      service.addRepository('Accounting', { 'a.xlsx': 'a' });
      const folder = await temporaryFolder();
      await writeFile(join(folder, 'api-key'), service.apiKey, { mode: 0o600 });
      await writeFile(join(folder, 'api-token'), service.apiToken, { mode: 0o600 });
      const settings = blockOf('yaml')
        .replace(/https:\S+/, service.baseUrl)
        .replaceAll('/etc/workbook-mirror', folder)
        .replace('/var/lib/workbook-mirror', join(folder, 'mirrored'));
      await writeFile(join(folder, 'config.yaml'), settings);
      const commands = blockOf('sh').replaceAll('config.yaml', join(folder, 'config.yaml'));
      expect(commands.match(/^npx workbook-mirror (?:config check|plan|sync) /gm)).toHaveLength(3);
      // The first npx in a clone builds the program again: other tests use its files at the same time.
      const env = cleanEnvironment({ npm_config_ignore_scripts: 'true' });
      await promisify(execFile)('sh', ['-ec', commands], { cwd: ROOT, env });
      expect(readFileSync(join(folder, 'mirrored/mirror/Accounting/main/a.xlsx'), 'utf8')).toBe('a');
    },
  );

  it('and the manual run no program by the system’s Node, which may be too old', () => {
    const chapters = readdirSync(CHAPTERS).filter((name) => name.endsWith('.md'));
    const texts = chapters.map((name) => readFileSync(join(CHAPTERS, name), 'utf8'));
    for (const text of [README, ...texts]) expect(text).not.toMatch(/(?:^ *|`|&& )node [\w./-]+\.[jt]s\b/m);
  });
});
