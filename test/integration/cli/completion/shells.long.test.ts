import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { run } from '../../../support/program.ts';
import {
  filesOf,
  hasTerminalShell,
  type Shell,
  startTerminalShell,
  TAB,
  type TerminalShell,
} from '../../../support/terminal-shell.ts';
import { MAIN } from '../../../support/built.ts';

const BASH_COMPLETION = '/usr/share/bash-completion/bash_completion';
const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** How the word in hand begins: without a quote, or in one. */
type Opening = 'none' | 'double' | 'single';

const OPENINGS: Readonly<Record<Shell, readonly Opening[]>> = {
  // Offers nothing behind a quote.
  bash: ['none'],
  zsh: ['none', 'double', 'single'],
  fish: ['none', 'double', 'single'],
};

/** Names of repositories and branches that a shell would make something of. */
const HOSTILE = [
  'Accounting$(touch pwned)/main',
  'Acc`touch pwned`/main',
  "Acc';touch pwned;'/main",
  'Acc";touch pwned;"/main',
  'Acc\\";touch pwned;/main',
  "Acc\\';touch pwned;/main",
  'Acc&touch pwned&/main',
  'Acc|touch pwned #/main',
  'Acc ${x[$(touch pwned)]} $x !! !$ !touch/main',
  "Acc'$(touch pwned)'\"$(touch pwned)\"/it's",
  'Acc*?[a]{b,c}~^#=@:%<>(x)/main',
  'Acc "quoted"',
  "Acc 'quoted'",
  'Acc!',
  'Acc/é漢😀',
];

const pieces = fc.constantFrom(
  ...Array.from(' !"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~aZ7é漢😀'),
  '$(touch pwned)',
  '`touch pwned`',
  "';touch pwned;'",
  '";touch pwned;"',
  '\\";touch pwned;"',
  '!!',
  '$HOME',
);
const parts = fc.array(pieces, { maxLength: 6 }).map((all) => all.join(''));

/** Each of them types and runs a line. */
const RUNS = { numRuns: 50 };

/** The beginning of a name as somebody types it, so far as it can be typed in such a quote. */
function typed(shell: Shell, opening: Opening, beginning: string): string {
  const escaped = (special: RegExp): string => beginning.replaceAll(special, String.raw`\$&`);
  switch (opening) {
    case 'none':
      return escaped(/[^\p{L}\p{N}\p{So}]/gu);
    case 'double':
      return `"${(shell === 'fish' ? escaped(/["$\\]/g) : escaped(/["$\\`]/g)).replace(/!.*/, '')}`;
    case 'single':
      return `'${shell === 'fish' ? escaped(/['\\]/g) : beginning.replace(/'.*/, '')}`;
  }
}

interface Completing extends TerminalShell {
  /** Sets the names that the program offers. */
  readonly know: (...names: readonly string[]) => Promise<void>;
}

/** A shell in which the program offers what a test says. */
async function startCompleting(shell: Shell, before?: string): Promise<Completing> {
  const script = (await run(['completion', shell])).stdout;
  const program = 'tr "\\0" "\\n" >"$HOME/asked"; cat "$HOME/names"';
  const terminal = await startTerminalShell(shell, script, program, before);
  return {
    ...terminal,
    know: (...names) => writeFile(join(terminal.home, 'names'), names.map((name) => `${name}\n`).join('')),
  };
}

describe.each(SHELLS)('what %s completes', (shell) => {
  const test = it.skipIf(!hasTerminalShell(shell));

  test.each(OPENINGS[shell])('is a name as plain text behind an opening of the kind %j', async (opening) => {
    const terminal = await startCompleting(shell);
    for (const name of HOSTILE) {
      await terminal.know(name);
      const line = await terminal.line(`workbook-mirror approve ${typed(shell, opening, 'Acc')}${TAB}`);
      expect(await terminal.run(line)).toEqual(['approve', name]);
    }
    expect(await filesOf(terminal)).toEqual([]);
  });

  test('is a name as plain text, whatever it is and however much is typed', async () => {
    const terminal = await startCompleting(shell);
    await fc.assert(
      fc.asyncProperty(parts, parts, fc.constantFrom(...OPENINGS[shell]), async (first, second, opening) => {
        // The program offers no name that begins like a flag. Fish completes nothing behind a wildcard, and closes no quote behind
        // some characters.
        const beginning = `a${shell === 'fish' ? first.replaceAll(/[*?]/g, '+') : first}`;
        const name = `${beginning}${second}z`;
        await terminal.know(name);
        const line = await terminal.line(`workbook-mirror approve ${typed(shell, opening, beginning)}${TAB}`);
        expect(await terminal.run(line)).toEqual(['approve', name]);
      }),
      RUNS,
    );
    expect(await filesOf(terminal)).toEqual([]);
  });

  test('are the names of the place on the line, of which nothing is run', async () => {
    const terminal = await startCompleting(shell);
    const name = 'Accounting/main';
    await terminal.know(name);
    const asked = async (place: string): Promise<string[]> => {
      await writeFile(join(terminal.home, 'asked'), '');
      await terminal.line(`workbook-mirror verify ${place} Acc${TAB}`);
      return (await readFile(join(terminal.home, 'asked'), 'utf8')).split('\n').slice(1, -2);
    };
    expect(await asked('--directory /a:b=c')).toEqual(['--directory', '/a:b=c']);
    expect(await asked('--directory=/a:b=c')).toEqual(['--directory=/a:b=c']);
    expect(await asked('-q --config a\\ b')).toEqual(['-q', '--config', 'a b']);
    expect(await asked('--directory ~/x')).toHaveLength(2);
    for (const place of [
      '"$(touch pwned)"',
      '$(touch pwned)',
      '`touch pwned`',
      '<(touch pwned)',
      '"`touch pwned`"',
    ])
      await asked(`--directory ${place}`);
    expect(await filesOf(terminal)).toEqual([]);
  });

  test('are commands, flags, their words, chapters and files', async () => {
    const script = (await run(['completion', shell])).stdout;
    const terminal = await startTerminalShell(shell, script, `exec '${process.execPath}' '${MAIN}' "$@"`);
    await mkdir(join(terminal.folder, 'place$(touch pwned)'));
    await writeFile(join(terminal.folder, 'plain'), '');
    const got = async (typed: string): Promise<readonly string[]> =>
      terminal.run(await terminal.line(`workbook-mirror ${typed}${TAB}`));
    expect(await got('hist')).toEqual(['history']);
    expect(await got('history res')).toEqual(['history', 'restore']);
    expect(await got('approve --ye')).toEqual(['approve', '--yes']);
    expect(await got('sync --max-st')).toEqual(['sync', '--max-staleness']);
    expect(await got('sync --publish ex')).toEqual(['sync', '--publish', 'exchange']);
    expect(await got('sync --publish=ex')).toEqual(['sync', '--publish=exchange']);
    expect(await got('help on-d')).toEqual(['help', 'on-disk']);
    expect(await got('sync --directory plac')).toEqual(['sync', '--directory', 'place$(touch pwned)/']);
    expect(await got('sync --directory=plac')).toEqual(['sync', '--directory=place$(touch pwned)/']);
    expect(await filesOf(terminal)).toEqual(['place$(touch pwned)', 'plain']);
  });

  test('comes from the disk', async () => {
    const script = (await run(['completion', shell])).stdout;
    const terminal = await startTerminalShell(shell, script, `exec '${process.execPath}' '${MAIN}' "$@"`);
    const manifests = join(terminal.home, 'mirror', 'manifests');
    const name = 'Accounting$(touch pwned)';
    for (const each of [name, '--all', 'Accounting\u202Etxt', 'Accounting\u200B']) {
      await mkdir(join(manifests, each), { recursive: true });
      await writeFile(join(manifests, each, 'main.json'), '{}');
    }
    const line = await terminal.line(`workbook-mirror approve --directory ~/mirror A${TAB}`);
    expect(await terminal.run(line)).toEqual([
      'approve',
      '--directory',
      `${terminal.home}/mirror`,
      `${name}/main`,
    ]);
    expect(await filesOf(terminal)).toEqual([]);
  });
});

describe.skipIf(!hasTerminalShell('bash'))('completion in bash', () => {
  it('offers nothing behind quotes and expansions', async () => {
    const terminal = await startCompleting('bash');
    await terminal.know('Acc;touch pwned;/a');
    for (const begun of ['"Acc', "'Acc", "$'Acc", '"$(echo "Acc', '$(echo Acc', '"${x:-Acc', '`echo Acc'])
      expect(await terminal.line(`workbook-mirror approve ${begun}${TAB}`)).toBe(
        `workbook-mirror approve ${begun}`,
      );
    expect(await filesOf(terminal)).toEqual([]);
  });

  it.each(["COMP_WORDBREAKS=' '", 'COMP_WORDBREAKS="$COMP_WORDBREAKS/,["', 'set -u'])(
    'completes the part of a word that readline replaces: %s',
    async (before) => {
      const terminal = await startCompleting('bash', before);
      const name = 'a:b=c@d,[e]/$(touch pwned)';
      await terminal.know(name);
      for (const begun of ['a', 'a:', 'a:b=', 'a\\:b', 'a:b=c@', 'a:b=c@d,', 'a:b=c@d,[e', 'a:b=c@d,[e]/']) {
        const line = await terminal.line(`workbook-mirror approve ${begun}${TAB}`);
        expect(await terminal.run(line)).toEqual(['approve', name]);
      }
      await terminal.know('--publish=auto', '--publish=exchange');
      const line = await terminal.line(`workbook-mirror sync --publish=ex${TAB}`);
      expect(await terminal.run(line)).toEqual(['sync', '--publish=exchange']);
      expect(await filesOf(terminal)).toEqual([]);
    },
  );

  it.skipIf(!existsSync(BASH_COMPLETION))(
    'works with the package bash-completion, also behind another command',
    async () => {
      const terminal = await startCompleting('bash', `source ${BASH_COMPLETION}`);
      for (const name of HOSTILE) {
        await terminal.know(name);
        for (const command of ['workbook-mirror', 'nice workbook-mirror']) {
          const line = await terminal.line(`${command} approve Acc${TAB}`);
          expect(await terminal.run(line)).toEqual(['approve', name]);
        }
      }
      expect(await filesOf(terminal)).toEqual([]);
    },
  );
});
