import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import type { FakeRepository, FakeService } from '../../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { buildZip } from '../../../support/zip-builder.ts';

const MIB = 1024 * 1024;

const FILES: Readonly<Record<string, Buffer>> = Object.fromEntries(
  Array.from({ length: 14 }, (_, index) => [
    `${index % 3}/${index}.xlsx`,
    randomBytes(MIB * (1 + (index % 4))),
  ]),
);

async function mirrored(): Promise<{
  service: FakeService;
  mirror: MirrorHarness;
  repository: FakeRepository;
}> {
  const { service, mirror } = await startPair();
  const repository = service.addRepository('Large', {});
  for (const [path, bytes] of Object.entries(FILES)) service.write(repository, 'main', path, bytes);
  expect(await mirror.results()).toMatchObject({ 'Large/main': { outcome: 'pulled' } });
  return { service, mirror, repository };
}

/** Paths of wrong files. */
async function wrongIn(mirror: MirrorHarness, files: Readonly<Record<string, Buffer>>): Promise<string[]> {
  const tree = join(mirror.directory, 'mirror/Large/main');
  const found = await readdir(tree, { recursive: true, withFileTypes: true });
  const wrong = found.filter((entry) => entry.isFile()).length === Object.keys(files).length ? [] : ['count'];
  for (const [path, bytes] of Object.entries(files))
    if (!(await readFile(join(tree, path))).equals(bytes)) wrong.push(path);
  return wrong;
}

async function staged(mirror: MirrorHarness): Promise<string[]> {
  return readdir(join(mirror.directory, '.workbook-mirror/staging'));
}

it('a large archive is mirrored whole, and leaves nothing behind', async () => {
  const { service, mirror, repository } = await mirrored();
  expect(await wrongIn(mirror, FILES)).toEqual([]);
  expect(await staged(mirror)).toEqual([]);
  const changed = randomBytes(2 * MIB);
  service.write(repository, 'main', '1/13.xlsx', changed);
  service.write(repository, 'main', '2/5.xlsx', Buffer.from('small'));
  expect(await mirror.results()).toMatchObject({ 'Large/main': { outcome: 'pulled' } });
  const small = Buffer.from('small');
  expect(await wrongIn(mirror, { ...FILES, '1/13.xlsx': changed, '2/5.xlsx': small })).toEqual([]);
  expect(await staged(mirror)).toEqual([]);
});

it('one that contradicts itself at its end does not change the published tree', async () => {
  const { service, mirror, repository } = await mirrored();
  service.write(repository, 'main', '1/13.xlsx', randomBytes(2 * MIB));
  const names = Object.keys(FILES);
  const lying = names.map((name) => {
    const isLast = name === names.at(-1);
    const local = isLast ? { name: `${name} with another name at its content` } : {};
    return { name, data: randomBytes(3 * MIB), local };
  });
  const body = buildZip(lying);
  service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body } : null);
  service.takeRequests();
  expect(await mirror.results()).toMatchObject({
    'Large/main': { code: 'archive.damaged', errorAction: 'retry' },
  });
  expect(await wrongIn(mirror, FILES)).toEqual([]);
  expect(await staged(mirror)).toEqual([]);
});
