import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { expect, it } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { FakeKnobs, type FakeService, zipOf } from '../../../support/fake-service.ts';
import { DEFAULT_LIMITS } from '../../../support/archive-limits.ts';
import { CORPUS_LIMITS, ESCAPED, hostileArchives, oddArchives } from '../../../support/hostile-archives.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { readZip } from '../../../support/unpacked.ts';
import { buildZip } from '../../../support/zip-builder.ts';

const corpus = hostileArchives();
type HostileArchive = (typeof corpus)[number];

async function contentOf(zip: Uint8Array, limits = CORPUS_LIMITS): Promise<Record<string, string>> {
  const { files } = await readZip(zip, { limits });
  return Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path, bytes.toString('latin1')]));
}

function report(level: string, violations: readonly string[]): void {
  process.stdout.write(
    `hostile archives, ${level}: ${corpus.length} tried, ${violations.length} violations\n`,
  );
  expect(violations).toStrictEqual([]);
}

/** The fault in the error of an archive, or null. */
function faultOf(error: unknown, { verdict, names }: HostileArchive): string | null {
  if (!(error instanceof MirrorError)) return String(error);
  if (error.code !== verdict) return `${error.code}: ${error.message}`;
  if (error.hint === undefined) return 'has no hint';
  if (error.message.length > 2500 || /[\p{Cc}\p{Bidi_Control}]/u.test(error.message))
    return 'is not fit to be read';
  return error.message.includes(names) ? null : `does not name ${names}: ${error.message}`;
}

it('no hostile archive is accepted alone', async () => {
  const violations: string[] = [];
  for (const hostile of corpus) {
    const outcome = await contentOf(hostile.bytes).then(
      () => 'it was taken',
      (error: unknown) => faultOf(error, hostile),
    );
    if (outcome !== null) violations.push(`${hostile.name}: ${outcome}`);
  }
  expect(new Set(corpus.map(({ name }) => name)).size).toBe(corpus.length);
  report('by themselves', violations);
});

it.each(oddArchives())('an odd archive is accepted: %s', async (_name, bytes, files) => {
  expect(await contentOf(bytes)).toStrictEqual(files);
});

it('names that differ in case or Unicode form are used if they are accepted', async () => {
  for (const { bytes, name } of corpus.filter((each) => each.name.includes('that differ in'))) {
    const files = await contentOf(bytes, { ...DEFAULT_LIMITS, nameTwins: 'accept' });
    expect(Object.keys(files), name).toHaveLength(2);
  }
});

it('an archive with an entry that cannot be listed is damaged, and the entry is named', async () => {
  const zip = buildZip(['a', 'bad', 'c'].map((name) => ({ name, data: 'x' })));
  zip.writeUInt8(0, zip.lastIndexOf('bad') - 46);
  await expect(contentOf(zip)).rejects.toMatchObject({
    code: 'archive.damaged',
    message: expect.stringContaining('"bad" cannot be listed') as unknown,
  });
});

it.each([
  ['plain', {}],
  ['zip64', { zip64: true }],
  ['with data descriptors', { dataDescriptors: true }],
])('an archive is found damaged after a cut at any place (%s)', async (_name, knobs) => {
  const files = new Map([
    ['a.txt', Buffer.from('a')],
    ['deep/b.txt', Buffer.from('some text '.repeat(50))],
  ]);
  const zip = await zipOf(files, Object.assign(new FakeKnobs(), knobs));
  for (let length = 0; length < zip.length; length += 1) {
    const found = contentOf(zip.subarray(0, length));
    await expect(found, `cut after ${length} bytes`).rejects.toMatchObject({ code: 'archive.damaged' });
  }
});

/** The places of the name that only a hostile archive has: in a folder around the mirror, or below it. */
async function escapes(directory: string): Promise<string[]> {
  const found: string[] = [];
  for (let folder = dirname(directory); ; folder = dirname(folder)) {
    const path = join(folder, ESCAPED);
    if (existsSync(path)) found.push(path);
    if (folder === dirname(folder)) break;
  }
  const inside = await readdir(directory, { recursive: true });
  return [...found, ...inside.filter((path) => path.includes(ESCAPED))];
}

async function publishedState(mirror: MirrorHarness): Promise<unknown> {
  const stamps = Object.entries(await mirror.stamps()).filter(([path]) => path.startsWith('Accounting'));
  const manifests = await mirror.files('manifests');
  return [stamps, String(manifests.get('Accounting/main.json')), [...(await mirror.tree('Accounting/main'))]];
}

interface Situation {
  readonly service: FakeService;
  readonly mirror: MirrorHarness;
  readonly write: (name: string, text: string) => string;
}

/** Serves one archive, then a good version. @returns the problems found */
async function serve(hostile: HostileArchive, { service, mirror, write }: Situation): Promise<string[]> {
  const faults: string[] = [];
  const id = write('Accounting', `${hostile.name} 1`);
  write('Other', hostile.name);
  const before = await publishedState(mirror);
  // After an answer that is no archive, the client may ask by another form of the reference.
  const contents = new RegExp(`/(?:${id}|Accounting)/contents`);
  service.fault = (path) => (contents.test(path) ? { kind: 'body', body: hostile.bytes } : null);
  const results = await mirror.results();
  const { outcome, code, errorAction } = results['Accounting/main'] ?? {};
  const isRefused = hostile.verdict === 'archive.refused';
  if (outcome !== 'failed' || errorAction !== (isRefused ? 'quarantine' : 'retry')) {
    faults.push(`ended as ${String(outcome)} ${String(code)}`);
  }
  const failure = [...(await mirror.context.state.records()).values()].find(
    (record) => record.failure,
  )?.failure;
  const isNamed = code !== hostile.verdict || failure?.message.includes(hostile.names) === true;
  if (!isNamed || (isRefused && code !== hostile.verdict))
    faults.push(`is said to be ${String(failure?.message)}`);
  if (results['Other/main']?.outcome !== 'pulled') faults.push('the other target did not go on');
  try {
    expect(await publishedState(mirror)).toStrictEqual(before);
  } catch (error) {
    faults.push(`the published tree was touched: ${String(error)}`);
  }
  faults.push(...(await escapes(mirror.directory)));
  service.fault = null;
  write('Accounting', `${hostile.name} 2`);
  await mirror.exactPass();
  return faults;
}

it('no hostile archive is published, and the next good version is', async () => {
  const { service, mirror } = await startPair(
    {},
    {
      ARCHIVE_MAX_ENTRIES: String(CORPUS_LIMITS.maxEntries),
      ARCHIVE_MAX_UNPACKED_SIZE: '1 GiB',
    },
  );
  for (const name of ['Accounting', 'Other']) service.addRepository(name, { 'a.xlsx': 'a', 'x/b.xlsx': 'b' });
  await mirror.pass();
  const write = (name: string, text: string): string => {
    const repository = service.named(name);
    service.write(repository, 'main', 'a.xlsx', text);
    return repository.id;
  };
  const violations: string[] = [];
  for (const hostile of corpus) {
    const faults = await serve(hostile, { service, mirror, write });
    violations.push(...faults.map((fault) => `${hostile.name}: ${fault}`));
  }
  report('in passes', violations);
}, 300_000);
