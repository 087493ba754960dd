import { randomBytes } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

import { expect, it } from 'vitest';
import { ZipFile } from 'yazl';

import { listen } from '../support/listen.ts';
import { start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const MIB = 1024 * 1024;
const MTIME = new Date('2025-01-01T00:00:00Z');

/** Sizes of the files of an archive, in bytes. */
type Sizes = readonly number[];

/** 2 GiB: one file of 512 MiB, many of a few MiB, and thousands of small ones. */
const LARGE: Sizes = [512 * MIB, ...Array<number>(360).fill(4 * MIB), ...Array<number>(4800).fill(20 * 1024)];
const SMALL: Sizes = [20 * 1024];

const block = randomBytes(MIB);

function* bytesOf(sizeBytes: number): Generator<Buffer> {
  for (let left = sizeBytes; left > 0; left -= block.length)
    yield block.subarray(0, Math.min(left, block.length));
}

/** A service with one repository, which makes its archive while sending it. */
async function serviceOf(sizes: Sizes): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url === '/api/repos') {
      response.end(JSON.stringify([{ id: 'id-1', name: 'Large', full_name: 'Large', url: null }]));
      return;
    }
    const zip = new ZipFile();
    sizes.forEach((sizeBytes, index) => {
      const options = { mtime: MTIME, compressionLevel: index % 2 };
      zip.addReadStreamLazy(`folder ${index % 50}/${index}.xlsx`, options, (give) =>
        give(null, Readable.from(bytesOf(sizeBytes))),
      );
    });
    zip.end();
    zip.outputStream.pipe(response);
  });
  return `http://${await listen(server)}/api`;
}

/** Peak memory of a sync, in MB (VmHWM, proc(5)). */
async function peakOf(sizes: Sizes): Promise<number> {
  const directory = join(await temporaryFolder(), 'mirrored');
  const running = start(['sync'], {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: await serviceOf(sizes),
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'a-key',
    WORKBOOK_MIRROR_DIRECTORY: directory,
  });
  let peakKb = 0;
  while (running.child.exitCode === null && running.child.signalCode === null) {
    const status = await readFile(`/proc/${running.child.pid ?? 0}/status`, 'utf8').catch(() => '');
    peakKb = Math.max(peakKb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0));
    await sleep(20);
  }
  const { exitCode, stderr } = await running.ended;
  expect(exitCode, stderr).toBe(0);
  const files = await readdir(join(directory, 'mirror'), { recursive: true, withFileTypes: true });
  expect(files.filter((entry) => entry.isFile())).toHaveLength(sizes.length);
  return Math.round((peakKb * 1024) / 1e6);
}

it('sync takes less than 200 MB more for an archive of 2 GiB than for one of 20 kB', async () => {
  const [small, large] = [await peakOf(SMALL), await peakOf(LARGE)];
  process.stdout.write(`peak memory: ${small} MB for 20 kB, ${large} MB for 2 GiB\n`);
  expect(large - small).toBeLessThan(200);
});
