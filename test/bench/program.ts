import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import { API_KEY, API_TOKEN } from '../support/fake-service.ts';
import { cleanEnvironment, variablesOf } from '../support/program.ts';
import type { Bench } from './bench.ts';
import { ContenderError, measure } from './measure.ts';
import type { BenchService } from './service.ts';

/** Settings by the names of their variables, without the prefix. */
type Variables = Readonly<Record<string, string>>;

/** A directory that mirrors a service. */
export interface Place {
  readonly service: BenchService;
  readonly directory: string;
}

/** An environment with only the required and the given settings. */
function environmentOf({ service, directory }: Place, variables: Variables): Record<string, string> {
  const keys = { SERVICE_API_KEY: API_KEY, SERVICE_API_TOKEN: API_TOKEN };
  const settings = { SERVICE_BASE_URL: service.baseUrl, ...keys, DIRECTORY: directory, ...variables };
  return cleanEnvironment(variablesOf(settings)) as Record<string, string>;
}

/** Runs a command of the compiled program. */
export function runProgram(bench: Bench, args: readonly string[], place: Place) {
  const environment = environmentOf(place, {});
  return measure({ program: process.execPath, args: [bench.program, ...args], environment });
}

/** Starts a command of the compiled program as the leader of a process group. */
export function spawnProgram(bench: Bench, args: readonly string[], place: Place): ChildProcess {
  const env = environmentOf(place, {});
  return spawn(process.execPath, [bench.program, ...args], { env, stdio: 'ignore', detached: true });
}

/** A line of the daemon's log. */
interface LogLine {
  readonly event: string;
  readonly time: string;
}

const ENDS: ReadonlySet<string> = new Set(['pass.finished', 'pass.failed', 'pass.abandoned']);

/** Starts a daemon that makes passes only on request, and waits for its first pass. */
export async function startDaemon(bench: Bench, place: Place, variables: Variables = {}) {
  const settings = { SCHEDULE: '0 0 29 2 *', LOG_FORMAT: 'json', LOG_LEVEL: 'debug', ...variables };
  const child = spawn(process.execPath, [bench.program, 'run'], {
    env: environmentOf(place, settings),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  bench.atEnd(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  const log = createInterface({ input: child.stdout });
  const passEnds = async (): Promise<LogLine[]> => {
    const seen: LogLine[] = [];
    const finished = Promise.withResolvers<void>();
    const take = (text: string): void => {
      const line = JSON.parse(text) as LogLine;
      seen.push(line);
      if (ENDS.has(line.event)) finished.resolve();
    };
    log.on('line', take);
    await Promise.race([finished.promise, ended]);
    log.off('line', take);
    if (child.exitCode !== null) throw new ContenderError(`the daemon ended with ${child.exitCode}`);
    return seen;
  };
  await passEnds();
  return {
    pid: child.pid ?? 0,
    directory: place.directory,
    /** Asks for a pass by SIGHUP and waits for its end. @returns its log */
    pass: () => {
      child.kill('SIGHUP');
      return passEnds();
    },
  };
}
