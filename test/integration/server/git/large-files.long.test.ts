import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { git, KEY, startUploadService, type UploadService } from '../../../support/upload-service.ts';
import { unzip } from '../../../support/zip-reader.ts';

const SIZE_BYTES = 100_000_000;
/** Enough for git itself, and a fraction of the file. */
const MEMORY_KIB = 80_000;

let service: UploadService;
let gitDirectory = '';

async function shown(...args: readonly string[]): Promise<string> {
  const { code, said } = await git(service.folder, `--git-dir=${gitDirectory}`, ...args);
  expect([args, code, said]).toEqual([args, 0, said]);
  return said.trim();
}

function contents(path: string): Promise<Response> {
  return fetch(`${service.origin}api/repos/Plans/contents${path}`, { headers: { 'x-api-key': KEY } });
}

/** Pushes a file, so that it is in a pack. */
async function push(bytes: Buffer): Promise<void> {
  const work = await mkdtemp(join(service.folder, 'work-'));
  await git(work, 'init', '--quiet', '-b', 'main');
  await writeFile(join(work, 'large.xlsx'), bytes);
  await git(work, 'add', '--all');
  await git(work, 'commit', '--quiet', '--message', 'm');
  const { code, said } = await git(work, 'push', '--quiet', service.address('Plans'), 'main');
  expect([code, said]).toEqual([0, '']);
}

beforeEach(async () => {
  service = await startUploadService();
  const { id } = await service.registry.create('Plans');
  gitDirectory = service.registry.gitDirectory(id);
  return () => expect(service.failures).toEqual([]);
});

describe('a large file', () => {
  it.runIf(process.platform === 'linux')(
    'is never in memory as a whole, for any kind of access',
    async () => {
      await push(Buffer.alloc(SIZE_BYTES));
      await shown('repack', '--quiet', '-a', '-d');
      // The service runs a git that may take no more memory than that.
      const folder = await mkdtemp(join(service.folder, 'bin-'));
      const path = process.env['PATH'] ?? '';
      const limited = `#!/bin/sh\nPATH='${path}'\nulimit -S -v ${MEMORY_KIB}\nexec git "$@"\n`;
      await writeFile(join(folder, 'git'), limited, { mode: 0o755 });
      vi.stubEnv('PATH', `${folder}:${path}`);
      const file = await contents('/large.xlsx');
      expect([file.status, (await file.arrayBuffer()).byteLength]).toEqual([200, SIZE_BYTES]);
      const archive = await contents('');
      expect([archive.status, (await archive.arrayBuffer()).byteLength > 22]).toEqual([200, true]);
    },
  );

  it('is unchanged in an archive, and in the same archive each time', async () => {
    const bytes = Buffer.alloc(3_000_000, 'workbook');
    await push(bytes);
    const archive = Buffer.from(await (await contents('')).arrayBuffer());
    await shown('gc', '--quiet');
    expect(Buffer.from(await (await contents('')).arrayBuffer()).equals(archive)).toBe(true);
    const files = await unzip(archive);
    expect([...files.keys()]).toEqual(['large.xlsx']);
    expect(files.get('large.xlsx')?.equals(bytes)).toBe(true);
  });
});
