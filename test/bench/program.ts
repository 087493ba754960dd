import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import type { Bench } from './bench.ts';
import { ContenderError, measure, type Sample } from './measure.ts';

/** What is mirrored: the service of the benchmark, or another one. */
export interface Address {
  readonly baseUrl: string;
}

/** Settings by the names of their variables, the prefix left out. */
export type Variables = Readonly<Record<string, string>>;

/** The credentials that every service of the benchmark takes. */
export const API_KEY = 'key-of-the-benchmark';
export const API_TOKEN = 'token-of-the-benchmark';

const PREFIX = 'WORKBOOK_MIRROR_';

/** The environment of a user who has set nothing but what is needed, and what is given. */
function environmentOf(service: Address, directory: string, variables: Variables): Record<string, string> {
  const settings = {
    SERVICE_BASE_URL: service.baseUrl,
    SERVICE_API_KEY: API_KEY,
    SERVICE_API_TOKEN: API_TOKEN,
    DIRECTORY: directory,
    HTTP_LISTEN: 'off',
    ...variables,
  };
  return {
    NO_COLOR: '1',
    ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [PREFIX + name, value])),
  };
}

/** Runs a command of the compiled program in a process of its own. */
export function runProgram(
  bench: Bench,
  args: readonly string[],
  on: { readonly service: Address; readonly directory: string; readonly exitCodes?: readonly number[] },
  variables: Variables = {},
): Promise<Sample & { readonly stdout: string }> {
  return measure({
    program: process.execPath,
    args: [bench.program, ...args],
    environment: environmentOf(on.service, on.directory, variables),
    ...(on.exitCodes === undefined ? {} : { exitCodes: on.exitCodes }),
  });
}

/** Starts a command of the compiled program in a process group of its own, and hears nothing of it. */
export function spawnProgram(
  bench: Bench,
  args: readonly string[],
  on: { readonly service: Address; readonly directory: string },
  variables: Variables = {},
): ChildProcess {
  return spawn(process.execPath, [bench.program, ...args], {
    env: { ...process.env, ...environmentOf(on.service, on.directory, variables) },
    stdio: 'ignore',
    detached: true,
  });
}

/** A line of the daemon's log. */
export interface LogLine {
  readonly event: string;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A running daemon. */
export interface Daemon {
  readonly pid: number;
  readonly directory: string;
  /** Asks for a pass by SIGHUP and waits for its end. @returns what it logged */
  readonly pass: () => Promise<readonly LogLine[]>;
  /** Waits for a line. */
  readonly line: (matches: (line: LogLine) => boolean) => Promise<LogLine>;
  readonly close: () => Promise<void>;
}

const ENDS: ReadonlySet<string> = new Set(['pass.finished', 'pass.failed', 'pass.abandoned']);

/** Starts the daemon, with a schedule that never comes up by itself, and waits for the end of its first pass. */
export async function startDaemon(
  bench: Bench,
  service: Address,
  directory: string,
  variables: Variables = {},
): Promise<Daemon> {
  const child = spawn(process.execPath, [bench.program, 'run'], {
    env: {
      ...process.env,
      ...environmentOf(service, directory, {
        SCHEDULE: '0 0 29 2 *',
        LOG_FORMAT: 'json',
        LOG_LEVEL: 'debug',
        ...variables,
      }),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const log = followLog(child);
  const ended = once(child, 'exit');
  await log.next(({ event }) => ENDS.has(event));
  const close = async (): Promise<void> => {
    child.kill('SIGTERM');
    await ended;
  };
  bench.atEnd(close);
  return {
    pid: child.pid ?? 0,
    directory,
    line: log.next,
    pass: async () => {
      const lines: LogLine[] = [];
      const stop = log.watch((line) => lines.push(line));
      const finished = log.next(({ event }) => ENDS.has(event));
      child.kill('SIGHUP');
      await finished;
      stop();
      return lines;
    },
    close,
  };
}

interface FollowedLog {
  /** @returns what ends the watching */
  readonly watch: (watcher: (line: LogLine) => void) => () => void;
  readonly next: (matches: (line: LogLine) => boolean) => Promise<LogLine>;
}

function followLog(child: ChildProcess): FollowedLog {
  const watchers = new Set<(line: LogLine) => void>();
  if (child.stdout === null) throw new TypeError('the log of the daemon is not piped');
  createInterface({ input: child.stdout }).on('line', (text) => {
    const fields = JSON.parse(text) as Record<string, unknown>;
    const at = fields['time'];
    const timeMs = typeof at === 'number' ? at : Date.parse(String(at));
    const line = { event: String(fields['event']), timeMs, fields };
    for (const watcher of watchers) watcher(line);
  });
  const watch = (watcher: (line: LogLine) => void): (() => void) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  };
  return {
    watch,
    next: (matches) =>
      new Promise((resolve, reject) => {
        const stop = watch((line) => {
          if (!matches(line)) return;
          stop();
          resolve(line);
        });
        child.once('exit', (code) => reject(new ContenderError(`the daemon ended by itself with ${code}`)));
        child.setMaxListeners(0);
      }),
  };
}
