import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { MAIN } from '../../../support/built.ts';
import { hasProgram, run } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** The start of a shell with the script that completes; ^T writes the line to a file, and empties it. */
const STARTS = {
  bash: {
    file: '.bashrc',
    command: 'exec bash --noprofile --rcfile "$HOME/.bashrc" -i',
    text: `
      unset HISTFILE
      dump() { printf '%s\\0' "$READLINE_LINE" >>"$HOME/lines"; READLINE_LINE='' READLINE_POINT=0; }
      bind -x '"\\C-t": dump'
      source "$HOME/script"`,
  },
  zsh: {
    file: '.zshrc',
    command: 'exec zsh -d -i',
    text: `
      autoload -U compinit
      compinit -D -u
      dump() { print -rN -- "$BUFFER" >>"$HOME/lines"; BUFFER=''; }
      zle -N dump
      bindkey '^T' dump
      source "$HOME/script"`,
  },
  fish: {
    file: '.fishrc',
    command: 'exec fish --no-config --private --interactive --init-command "source $HOME/.fishrc"',
    text: `
      function dump
        printf '%s\\0' (commandline | string collect) >>$HOME/lines
        commandline ''
      end
      bind \\ct dump
      source $HOME/script`,
  },
};
type Shell = keyof typeof STARTS;

const [TAB, DUMP] = ['\t', '\u0014'];
const WAIT = { timeout: 120_000, interval: 5 };

/** Names of repositories and branches with meaning for a shell. */
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
  'Acc!',
  'Acc/é漢😀',
];

/** Paths of a mirror on a line; none must be expanded. */
const PLACES = ['"$(touch pwned)"', '$(touch pwned)', '`touch pwned`', '<(touch pwned)'];

/**
 * Starts an interactive shell on a terminal of its own, which ends with the running test.
 * @param program for `sh`: answers the completion's questions instead of `workbook-mirror`
 */
async function startShell(shell: Shell, program: string) {
  const home = await temporaryFolder();
  const [folder, programs] = [join(home, 'here'), join(home, 'programs')];
  const { file, command, text } = STARTS[shell];
  await mkdir(folder);
  await mkdir(programs);
  await writeFile(join(home, 'script'), (await run(['completion', shell])).stdout);
  await writeFile(join(home, file), `${text}\necho >$HOME/ready\n`);
  const runs = String.raw`{ printf '%s\n' "$@"; printf '\0'; } >>"$HOME/runs"; exit`;
  const body = `#!/bin/sh\nif [ "$1" != completion ]; then ${runs}; fi\n${program}\n`;
  await writeFile(join(programs, 'workbook-mirror'), body);
  await chmod(join(programs, 'workbook-mirror'), 0o755);
  const child = spawn('script', ['--quiet', '--command', `stty columns 1000; ${command}`, '/dev/null'], {
    cwd: folder,
    env: {
      PATH: `${programs}:${process.env['PATH'] ?? ''}`,
      HOME: home,
      ZDOTDIR: home,
      TERM: 'xterm',
      LC_ALL: 'C.UTF-8',
      SHELL: '/bin/sh',
    },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  onTestFinished(async () => {
    // The shell ends with its terminal.
    child.kill('SIGKILL');
    await once(child, 'close');
  });
  await vi.waitFor(() => access(join(home, 'ready')), WAIT);
  /** Waits until a file has another record. */
  const counts = { lines: 0, runs: 0 };
  const nextRecord = (name: keyof typeof counts): Promise<string> =>
    vi.waitFor(async () => {
      const records = (await readFile(join(home, name), 'utf8').catch(() => '')).split('\0').slice(0, -1);
      const record = records[counts[name]];
      if (record === undefined) throw new Error(`${shell} does not go on`);
      counts[name] += 1;
      return record;
    }, WAIT);
  /** The text of the line after some keys and the key that completes. The line is empty afterwards. */
  const line = (keys: string): Promise<string> => {
    child.stdin.write(`workbook-mirror ${keys}${TAB}${DUMP}`);
    return nextRecord('lines');
  };
  return {
    home,
    folder,
    line,
    /** The arguments that the program gets by a line that was completed. */
    completed: async (keys: string): Promise<readonly string[]> => {
      child.stdin.write(`${await line(keys)}\r`);
      return (await nextRecord('runs')).split('\n').slice(0, -1);
    },
  };
}

describe.each(['bash', 'zsh', 'fish'] as const)('the completion of %s', (shell) => {
  const test = it.skipIf(![shell, 'script', 'stty'].every(hasProgram));

  test('gives a name as plain text, and runs nothing on the line', async () => {
    const { home, folder, line, completed } = await startShell(shell, 'cat "$HOME/names"');
    const openings = shell === 'bash' ? [''] : ['', '"', "'"];
    for (const name of HOSTILE) {
      await writeFile(join(home, 'names'), `${name}\n`);
      for (const opening of openings)
        expect(await completed(`approve ${opening}Acc`)).toEqual(['approve', name]);
    }
    // In Readline, words end at a colon and at an equals sign.
    await writeFile(join(home, 'names'), 'a:b=c/main\n');
    for (const begun of shell === 'bash' ? ['a:', 'a:b=', 'a\\:b=c'] : [])
      expect(await completed(`approve ${begun}`)).toEqual(['approve', 'a:b=c/main']);
    for (const place of PLACES) await line(`verify --directory ${place} Acc`);
    // Bash offers nothing behind quotes and expansions.
    for (const begun of shell === 'bash' ? ['"Acc', "'Acc", '$(echo Acc', '"${x:-Acc'] : [])
      expect(await line(`approve ${begun}`)).toBe(`workbook-mirror approve ${begun}`);
    expect(await readdir(folder)).toEqual([]);
  });

  test('has commands, values of flags, files and targets on the disk', async () => {
    const { home, folder, completed } = await startShell(shell, `exec '${process.execPath}' '${MAIN}' "$@"`);
    await mkdir(join(folder, 'place$(touch pwned)'));
    const manifests = join(home, 'mirror/manifests');
    for (const each of ['Accounting$(touch pwned)', '--all', 'Accounting\u202Etxt']) {
      await mkdir(join(manifests, each), { recursive: true });
      await writeFile(join(manifests, each, 'main.json'), '{}');
    }
    expect(await completed('history res')).toEqual(['history', 'restore']);
    expect(await completed('sync --publish=ex')).toEqual(['sync', '--publish=exchange']);
    expect(await completed('sync --directory plac')).toEqual(['sync', '--directory', 'place$(touch pwned)/']);
    const [, , directory, target] = await completed('approve --directory ~/mirror A');
    expect([directory, target]).toEqual([join(home, 'mirror'), 'Accounting$(touch pwned)/main']);
    expect(await readdir(folder)).toEqual(['place$(touch pwned)']);
  });
});
