import { promises, readSync, writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import workerThreads from 'node:worker_threads';

/**
 * Inside of a program under attack: threads wait until the tracer is attached. strace counts calls per thread, so that a call
 * of one thread can only be meant where the thread is there and known before.
 */

/** The descriptor over which a thread says that it is there, a line each, and waits for one byte. */
const GATE_FD = 3;

/** A thread that waits at its gate. */
export interface AtGate {
  /** `main`, or `thread-1` and so on in the order in which they are started. */
  readonly name: string;
  readonly pid: number;
  /** The number of the thread, as strace takes it. */
  readonly threadId: number;
}

/** A file that nobody has: a thread asks for it after its gate, so that a trace shows where to begin to count. */
export const GATE_MARK = '/dev/null/gate';

/** One thread does all work on many files, so that its calls come in the same order each time. */
export function useOneThread(): void {
  Object.assign(os, { availableParallelism: () => 1 });
  syncBuiltinESMExports();
}

/** Starts libuv's thread and waits until the tracer is attached; threads that come later wait each for itself. */
export async function passGate(): Promise<void> {
  gateThreads();
  await promises.stat('/');
  const here: AtGate = { name: 'main', pid: process.pid, threadId: process.pid };
  writeSync(GATE_FD, `${JSON.stringify(here)}\n`);
  readSync(GATE_FD, Buffer.alloc(1));
}

function gateThreads(): void {
  let started = 0;
  const { Worker } = workerThreads;
  Object.assign(workerThreads, {
    Worker: class extends Worker {
      constructor(program: string | URL, options?: workerThreads.WorkerOptions) {
        started += 1;
        super(gatedThread(`thread-${started}`, String(program)), options);
      }
    },
  });
  syncBuiltinESMExports();
}

/** A program for a thread that waits at its gate before it runs another one. */
function gatedThread(name: string, program: string): URL {
  // The same text in each run, of which Node keeps the compiled code.
  return new URL(
    `data:text/javascript,${encodeURIComponent(`
      import { openSync, readlinkSync, readSync, writeSync } from 'node:fs';
      const threadId = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
      writeSync(${GATE_FD}, JSON.stringify({ name: '${name}', pid: process.pid, threadId }) + '\\n');
      readSync(${GATE_FD}, Buffer.alloc(1));
      try { openSync('${GATE_MARK}'); } catch {}
      await import(${JSON.stringify(program)});
    `)}`,
  );
}
