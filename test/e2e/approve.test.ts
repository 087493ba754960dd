import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startSynced } from '../support/mirror-commands.ts';
import { hasProgram } from '../support/program.ts';
import { onTerminal } from '../support/terminal.ts';

const FILES = Object.fromEntries(
  Array.from({ length: 130 }, (_, index) => [`sheet-${1000 + index}.xlsx`, `${index}`]),
);

/** A mirror with a deletion on hold. */
async function held() {
  const { service, directory, variables: settings, run } = await startSynced({ Accounting: FILES });
  for (const path of Object.keys(FILES).slice(0, 120)) service.remove(service.named(), 'main', path);
  expect((await run('sync')).exitCode).toBe(1);
  return { settings, directory, run };
}

describe('approve', () => {
  it('approves nothing unseen: without a terminal it lists the deletions, and asks for --yes', async () => {
    const { directory, run } = await held();
    const refused = await run('approve', 'Accounting/main');
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
    expect(refused.stderr).toContain('would delete 120 of its 130 files');
    expect(refused.stderr).toMatch(/^ {2}removed {2}sheet-1000\.xlsx {2}1 B {3}\w+ .*$/m);
    expect(refused.stderr).toMatch(
      /^ {2}removed {2}sheet-1099\.xlsx .*\n {2}and 20 more\n.*diff --upstream/m,
    );
    expect(refused.stderr).toContain('--yes');
    expect(existsSync(join(directory, '.workbook-mirror/approvals'))).toBe(false);

    const approved = await run('approve', '--all', '--yes', '--json');
    const [each] = JSON.parse(approved.stdout) as { files: string[]; differences: { path: string }[] }[];
    expect(each).toMatchObject({ fileCount: 120, files: { length: 100 } });
    expect(each?.differences.map(({ path }) => path)).toEqual(each?.files);
    expect((await run('sync')).exitCode).toBe(0);
    expect(await readdir(join(directory, 'mirror/Accounting/main'))).toHaveLength(10);
    expect(await readdir(join(directory, 'history/Accounting/main'))).toHaveLength(2);
  });

  it.runIf(hasProgram('script'))('asks on a terminal, and accepts only a yes', async () => {
    const { settings, directory } = await held();
    for (const answers of [['\r'], ['n\r'], ['yess\r', 'n\r'], ['\u0004']]) {
      const typed = answers.map((answer) => ['[y/N] ', answer] as const);
      const { code, text } = await onTerminal('approve Accounting/main', typed, settings);
      expect(text).toContain('Let 1 target go? [y/N]');
      expect({ answers, code }).toEqual({ answers, code: 1 });
      expect(text.includes('Answer y or n.')).toBe(answers.length > 1);
    }
    expect(existsSync(join(directory, '.workbook-mirror/approvals'))).toBe(false);
    expect((await onTerminal('approve Accounting/main', [['[y/N] ', 'y\r']], settings)).code).toBe(0);
    expect(await readdir(join(directory, '.workbook-mirror/approvals'))).toHaveLength(1);
  });
});
