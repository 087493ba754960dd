import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/**
 * Writes files of given sizes from memory: two threads, each open, write, close; then `sync -f`. No mirror can be faster on this disk.
 * Reads `[[path, sizeBytes], ...]` from standard input and prints the time in milliseconds.
 *   write-files.ts DIRECTORY
 */

type Listed = ReadonlyArray<readonly [path: string, sizeBytes: number]>;

const THREADS = 2;

function write(directory: string, files: Listed): void {
  const bytes = randomBytes(Math.max(0, ...files.map(([, sizeBytes]) => sizeBytes)));
  parentPort?.postMessage('ready', []);
  parentPort?.once('message', () => {
    const made = new Set<string>();
    for (const [path, sizeBytes] of files) {
      const destination = join(directory, path);
      const folder = dirname(destination);
      if (!made.has(folder)) {
        mkdirSync(folder, { recursive: true });
        made.add(folder);
      }
      const fd = openSync(destination, 'wx');
      for (let done = 0; done < sizeBytes;) done += writeSync(fd, bytes, done, sizeBytes - done);
      closeSync(fd);
    }
    parentPort?.close();
  });
}

async function writeAll(directory: string, files: Listed): Promise<void> {
  const half = Math.ceil(files.length / THREADS);
  const workers = Array.from({ length: THREADS }, (_, index) => {
    const own = files.slice(index * half, (index + 1) * half);
    return new Worker(new URL(import.meta.url), { workerData: { directory, files: own } });
  });
  await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
  const startedAtMs = performance.now();
  await Promise.all(
    workers.map((worker) => {
      const ended = new Promise((resolve) => worker.once('exit', resolve));
      worker.postMessage('go', []);
      return ended;
    }),
  );
  execFileSync('sync', ['-f', directory]);
  process.stdout.write(`${performance.now() - startedAtMs}\n`);
}

if (isMainThread) {
  const [, , directory = ''] = process.argv;
  mkdirSync(directory, { recursive: true });
  await writeAll(directory, JSON.parse(readFileSync(0, 'utf8')) as Listed);
} else {
  const { directory, files } = workerData as { directory: string; files: Listed };
  write(directory, files);
}
