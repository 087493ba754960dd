import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { onTestFinished, vi } from 'vitest';

import { temporaryFolder } from './temporary.ts';

/** A shell that there is a completion for. */
export type Shell = 'bash' | 'zsh' | 'fish';

/** Whether a machine has a program. */
export function hasProgram(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

/** Whether a machine has what it takes to type into a shell: the shell, and a program that gives it a terminal. */
export function hasTerminalShell(shell: Shell): boolean {
  return process.platform === 'linux' && hasProgram(shell) && hasProgram('script') && hasProgram('stty');
}

/** An interactive shell on a terminal of its own, which completes. */
export interface TerminalShell {
  /** The shell's home, with the files that the program of the test reads and writes. */
  readonly home: string;
  /** The folder that the shell is in, empty but for what a test puts there. */
  readonly folder: string;
  /** What is on the line after some keys. The line is then empty again. */
  readonly line: (keys: string) => Promise<string>;
  /** Types a line and the Enter key; gives the arguments that `workbook-mirror` got. */
  readonly run: (line: string) => Promise<readonly string[]>;
}

/** The key that completes. */
export const TAB = '\t';
/** Moves the cursor to the left by one. */
export const LEFT = '\u0002';
/** Puts all candidates on the line, in bash (`insert-completions`). */
export const ALL = '\u0019';
/** Writes the line to a file. */
const DUMP = '\u0014';

const WAIT = { timeout: 20_000, interval: 5 };

const STARTS: Readonly<
  Record<Shell, { readonly file: string; readonly command: string; readonly text: string }>
> = {
  bash: {
    file: '.bashrc',
    command: 'exec bash --noprofile --rcfile "$HOME/.bashrc" -i',
    text: `
      unset HISTFILE
      dump() { printf '%s\\0' "$READLINE_LINE" >>"$HOME/lines"; READLINE_LINE='' READLINE_POINT=0; }
      bind -x '"\\C-t": dump'
      bind '"\\C-y": insert-completions'
      [[ ! -f $HOME/before ]] || source "$HOME/before"
      source "$HOME/script"
      echo $$ >"$HOME/pid"`,
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
      source "$HOME/script"
      echo $$ >"$HOME/pid"`,
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
      source $HOME/script
      echo $fish_pid >$HOME/pid`,
  },
};

/**
 * Starts an interactive shell, and ends it with the running test.
 * @param script the completion
 * @param program for `sh`: answers what the completion asks of `workbook-mirror`
 * @param before for bash: runs before the completion is loaded
 */
export async function startTerminalShell(
  shell: Shell,
  script: string,
  program: string,
  before = '',
): Promise<TerminalShell> {
  const home = await temporaryFolder();
  const folder = join(home, 'here');
  const programs = join(home, 'programs');
  const { file, command, text } = STARTS[shell];
  await mkdir(folder);
  await mkdir(programs);
  await writeFile(join(home, 'script'), script);
  await writeFile(join(home, 'before'), before);
  await writeFile(join(home, file), text);
  await writeFile(
    join(programs, 'workbook-mirror'),
    `#!/bin/sh
    if [ "$1" != completion ]; then { printf '%s\\n' "$@"; printf '\\0'; } >>"$HOME/runs"; exit; fi
    ${program}\n`,
  );
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
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  let screen = '';
  child.stdout.setEncoding('utf8').on('data', (shown: string) => {
    screen += shown;
  });
  const pid = await vi.waitFor(async () => {
    const [, id] = /^(\d+)\n$/.exec(await readFile(join(home, 'pid'), 'utf8')) ?? [];
    if (id === undefined) throw new Error(`${shell} does not start:\n${screen}`);
    return Number(id);
  }, WAIT);
  onTestFinished(async () => {
    process.kill(pid, 'SIGKILL');
    await ended;
  });

  /** Waits until a file has another record. */
  const counts = new Map<string, number>();
  const nextRecord = (name: string): Promise<string> =>
    vi.waitFor(async () => {
      const records = (await readFile(join(home, name), 'utf8').catch(() => '')).split('\0');
      const seen = counts.get(name) ?? 0;
      const record = records[seen];
      if (record === undefined || records.length === seen + 1)
        throw new Error(`${shell} does not go on:\n${screen}`);
      counts.set(name, seen + 1);
      return record;
    }, WAIT);
  return {
    home,
    folder,
    line: (keys) => {
      child.stdin.write(keys + DUMP);
      return nextRecord('lines');
    },
    run: async (line) => {
      child.stdin.write(`${line}\r`);
      return (await nextRecord('runs')).split('\n').slice(0, -1);
    },
  };
}

/** The files of a folder, by name. */
export async function filesOf({ folder }: TerminalShell): Promise<string[]> {
  return (await readdir(folder)).sort();
}
