import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Duplex, Readable } from 'node:stream';

import type { AtGate } from './gate.ts';
import { quietWakeUps } from './wake-ups.ts';

/** A program for Node. */
export interface NodeProgram {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** A run that takes longer is killed and counts as hung, in milliseconds. */
  readonly timeoutMs: number;
}

/** How a run ended. */
export interface RunEnded {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
  readonly isHung: boolean;
  /** What it left open or going, where its process goes on: files by their paths, all else by its kind. */
  readonly openFiles: readonly string[];
}

/** Called for each thread of a program that comes to its gate; it goes on once this is done. */
export type OnGate = (thread: AtGate) => Promise<void>;

/** Runs programs, each in a process of its own. */
export interface Launcher {
  /** Runs a program to its end. @param onGate without it there are no gates */
  readonly run: (program: NodeProgram, onGate?: OnGate) => Promise<RunEnded>;
  readonly close: () => Promise<void>;
}

const GATED = join(import.meta.dirname, 'gated.ts');

/** Runs each program by a Node of its own. */
export const freshNode: Launcher = {
  run: async (program, onGate) => {
    const loaded = onGate === undefined ? [] : ['--import', GATED];
    const child = spawn(process.execPath, [...loaded, ...program.args], {
      env: { ...program.env, ...quietWakeUps, UV_THREADPOOL_SIZE: '1' },
      stdio: ['ignore', 'ignore', 'pipe', onGate === undefined ? 'ignore' : 'pipe'],
    });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const gates = onGate === undefined ? null : openGates(child.stdio[3] as Duplex, () => onGate);
    let isHung = false;
    const timer = setTimeout(() => {
      isHung = true;
      child.kill('SIGKILL');
    }, program.timeoutMs);
    await once(child, 'close');
    clearTimeout(timer);
    await gates?.idle();
    return { exitCode: child.exitCode, signal: child.signalCode, stderr, isHung, openFiles: [] };
  },
  close: () => Promise.resolve(),
};

/** The harness's end of the gates. */
export interface Gates {
  /** Waits for what has begun at the gates. @throws what went wrong there */
  readonly idle: () => Promise<void>;
}

/** Lets threads through their gates, each once what is asked for is done. @param onGateOf gives null for a run that is over */
export function openGates(channel: Duplex, onGateOf: (thread: AtGate) => OnGate | null): Gates {
  const passing: Promise<void>[] = [];
  channel.on('error', () => {});
  onLines(channel, (line) => {
    const thread = JSON.parse(line) as AtGate;
    const onGate = onGateOf(thread);
    if (onGate === null) return;
    const passed = onGate(thread).finally(() => channel.write('.'));
    passed.catch(() => {});
    passing.push(passed);
  });
  return {
    idle: async () => {
      await Promise.all(passing.splice(0));
    },
  };
}

/** Calls for every line of a stream. */
export function onLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onLine(line);
  });
}
