import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';

import { onTestFinished } from 'vitest';

import { MAIN } from './built.ts';

/** Whether this machine has a program. */
export function hasProgram(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

/** A running program. */
export type Running = ReturnType<typeof start>;

/** The output of a program and its exit code. */
export type Ended = Awaited<Running['ended']>;

/** Variables, or settings as variables without the prefix: `DIRECTORY`. */
export type Variables = Readonly<Record<string, string>>;

/** The environment of this machine without settings of this program, plus the given ones. */
export function cleanEnvironment(settings: Variables): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('WORKBOOK_MIRROR_') && name !== 'CREDENTIALS_DIRECTORY',
  );
  return { ...Object.fromEntries(inherited), NO_COLOR: '1', WORKBOOK_MIRROR_HTTP_LISTEN: 'off', ...settings };
}

/** Settings as variables. @param settings variables without the prefix: `DIRECTORY` */
export function variablesOf(settings: Variables): Record<string, string> {
  const named = Object.entries(settings).map(([name, value]) => [`WORKBOOK_MIRROR_${name}`, value]);
  return Object.fromEntries(named) as Record<string, string>;
}

/** Starts the program, and kills it when the running test ends. @param main of another copy of the program */
export function start(args: readonly string[], settings: Variables = {}, cwd = process.cwd(), main = MAIN) {
  const child = spawn(process.execPath, [main, ...args], {
    env: cleanEnvironment(settings),
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const said = { stdout: '', stderr: '' };
  const output = new EventEmitter();
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
      output.emit('text');
    });
  const ended = once(child, 'close').then(() => ({
    exitCode: child.exitCode,
    signal: child.signalCode,
    ...said,
  }));
  return {
    child,
    stdout: () => said.stdout,
    stderr: () => said.stderr,
    ended,
    /** Asks it to end by SIGTERM, and waits until it has. */
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
    /** Waits for a matching line on standard output or error. */
    prints: async (pattern: RegExp) => {
      const tooLate = ended.then(({ stdout, stderr }) => {
        throw new Error(`it ended before it printed ${String(pattern)}:\n${stdout}${stderr}`);
      });
      while (!pattern.test(said.stdout) && !pattern.test(said.stderr))
        await Promise.race([once(output, 'text'), tooLate]);
      tooLate.catch(() => {});
    },
  };
}

/** Starts a daemon without a schedule, and waits for its first pass. */
export async function startDaemon(settings: Variables, args: readonly string[] = []): Promise<Running> {
  const daemon = start(['run', ...args], { WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *', ...settings });
  await daemon.prints(/"pass\.finished"/);
  return daemon;
}

/** The last address at which a daemon listens, once it does. */
export async function addressOf({ prints, stdout }: Running): Promise<string> {
  await prints(/"http\.listening"/);
  const addresses = [...stdout().matchAll(/"event":"http\.listening"[^\n]*"address":"([^"]+)"/g)];
  return addresses.at(-1)?.[1] ?? '';
}

/** Runs the program. */
export function run(args: readonly string[], settings: Variables = {}, cwd?: string): Promise<Ended> {
  return start(args, settings, cwd).ended;
}
