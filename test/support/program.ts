import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

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

/** The output of a program and its exit code. */
export interface Ended {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running program. */
export interface Running {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<Ended>;
  /** Waits for a matching line on standard output or error. */
  readonly prints: (pattern: RegExp) => Promise<void>;
  /** Asks it to end by SIGTERM, and waits until it has. */
  readonly stop: () => Promise<Ended>;
}

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
export function start(
  args: readonly string[],
  settings: Variables = {},
  cwd = process.cwd(),
  main = MAIN,
): Running {
  const child = spawn(process.execPath, [main, ...args], {
    env: cleanEnvironment(settings),
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  let stdout = '';
  let stderr = '';
  const watchers = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    for (const watch of watchers) watch();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    for (const watch of watchers) watch();
  });
  const ended = once(child, 'close').then(() => ({
    exitCode: child.exitCode,
    signal: child.signalCode,
    stdout,
    stderr,
  }));
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
    prints: async (pattern) => {
      const seen = Promise.withResolvers<void>();
      const watch = (): void => {
        if (pattern.test(stdout) || pattern.test(stderr)) seen.resolve();
      };
      watchers.add(watch);
      watch();
      await Promise.race([
        seen.promise,
        ended.then(() => {
          throw new Error(`it ended before it printed ${String(pattern)}:\n${stdout}${stderr}`);
        }),
      ]);
      watchers.delete(watch);
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
