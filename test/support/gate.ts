import { promises, readSync, writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import workerThreads from 'node:worker_threads';

/**
 * Runs inside the attacked program: threads wait until the tracer is attached. strace counts calls per thread, so a thread must exist and
 * be known before one of its calls can be chosen.
 */

/** The descriptor on which a thread announces itself by a line, and waits for one byte. */
const GATE_FD = 3;

/** A thread that waits at its gate. */
export interface AtGate {
  /** `main`, or `thread-1` and so on, in the order of their start. */
  readonly name: string;
  readonly pid: number;
  /** The number of the thread, for strace. */
  readonly threadId: number;
}

/** A file that does not exist: a thread asks for it after its gate, which marks the beginning of the count in a trace. */
export const GATE_MARK = '/dev/null/gate';

/** One thread does all work on many files, so that the order of its calls is always the same. */
export function useOneThread(): void {
  Object.assign(os, { availableParallelism: () => 1 });
  syncBuiltinESMExports();
}

/** Starts libuv's thread and waits until the tracer is attached. Later threads wait at their own gates. */
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
  // The same text in each run, so that Node can reuse the compiled code.
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
