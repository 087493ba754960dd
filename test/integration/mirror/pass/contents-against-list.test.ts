import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import type { FakeKnobs } from '../../../support/fake-service.ts';
import { startCommands } from '../../../support/mirror-commands.ts';
import { textsIn } from '../../../support/published.ts';

/** More `sync` than contents ever need to be accepted. */
const MANY = 8;

const FILES = { 'a.xlsx': 'a1', 'b.xlsx': 'b1', 'notes.txt': 'n1' };
const TAGGED: Partial<FakeKnobs> = { etag: 'strong', conditional: true };

type User = Awaited<ReturnType<typeof user>>;

/** A directory and a service, used only by the command line. */
async function user(
  knobs: Partial<FakeKnobs> = {},
  files: Readonly<Record<string, string>> = FILES,
  fullName = 'host.example/plan.git',
) {
  const { service, command, status, tree, text } = await startCommands(knobs);
  vi.useFakeTimers({ toFake: ['Date'] });
  const repository = service.addRepository(fullName, files);
  const run = (...args: readonly string[]) => command(args, { GUARD_FILES: 'off' });
  return {
    service,
    repository,
    run,
    /** Runs `sync` until it exits with 0, half a minute apart. @returns the exit codes */
    syncUntilFresh: async () => {
      const codes: number[] = [];
      while (codes.at(-1) !== 0 && codes.length < MANY) {
        vi.setSystemTime(Date.now() + 30_000);
        codes.push((await run('sync')).exitCode);
      }
      return codes;
    },
    /** The only target, as `status` shows it. */
    shown: async () => Object.values(await status())[0],
    /** The state of each branch. */
    states: async (): Promise<Record<string, string>> =>
      Object.fromEntries(
        Object.values(await status()).map(({ target, state }) => [target.split('/').at(-1) ?? '', state]),
      ),
    file: (name: string) => join(tree(`${fullName}/main`), name),
    /** The published tree: its files with their texts. */
    tree: () => textsIn(tree(`${fullName}/main`)),
    /** The versions that the manifest names, by path. */
    versions: async () => {
      const { files: listed } = JSON.parse(await text(`manifests/${fullName}/main.json`)) as {
        files: { path: string; workbook?: { version: string } }[];
      };
      return Object.fromEntries(listed.map(({ path, workbook }) => [path, workbook?.version]));
    },
  };
}

/** The present contents with other files; undefined removes one. */
function contentsNow(
  { repository }: User,
  others: Readonly<Record<string, string | undefined>> = {},
): Map<string, Buffer> {
  const files = new Map(repository.branches.get('main')?.files);
  for (const [path, text] of Object.entries(others)) {
    if (text === undefined) files.delete(path);
    else files.set(path, Buffer.from(text));
  }
  return files;
}

/** The output of `sync`, `status` and `why` about the only target. */
async function said({ run, shown }: User) {
  const { exitCode, stderr } = await run('sync');
  const { target = '', state, verifiedAtMs } = (await shown()) ?? {};
  const status = (await run('status')).stdout;
  const why = (await run('why', target)).stdout;
  return { exitCode, stderr, state, verifiedAtMs, status, why };
}

/** Expects that the target is not called fresh, anywhere, and that the file is named. */
async function expectDoubt(mirror: User, name: string): Promise<void> {
  const before = await mirror.shown();
  vi.setSystemTime(Date.now() + 30_000);
  const { exitCode, stderr, state, verifiedAtMs, status, why } = await said(mirror);
  expect({ exitCode, state }).toEqual({ exitCode: 1, state: 'failing' });
  expect(status).toContain('contents.contradicted');
  for (const text of [stderr, status, why]) expect(text).toContain(name);
  expect(verifiedAtMs).toBe(before?.verifiedAtMs ?? null);
}

/** Expects that a pass downloads nothing. */
async function expectIdle({ service, run }: User, exitCode = 0): Promise<void> {
  service.takeRequests();
  expect((await run('sync')).exitCode).toBe(exitCode);
  expect(service.takeDownloads()).toEqual([]);
}

const BY_PATH = { 'a.xlsx': 'a1', 'b.xlsx': 'b1'.repeat(99) };

it.each([
  ['the old bytes of a new version', 'host.example/plan.git', {}, FILES, { 'a.xlsx': 'a1' }],
  ['the same in a file pulled by its path', 'Accounting', {}, BY_PATH, { 'a.xlsx': 'a1' }],
  ['the same as "not modified"', 'host.example/plan.git', TAGGED, FILES, { 'a.xlsx': 'a1' }],
  ['other bytes of the published version', 'host.example/plan.git', {}, FILES, { 'b.xlsx': 'b0' }],
  ['no file of a listed workbook', 'host.example/plan.git', {}, FILES, { 'b.xlsx': undefined }],
] as const)(
  'contents that contradict the list are no proof at first, and later ones that agree are published: %s',
  async (_name, fullName, knobs, files, others) => {
    const mirror = await user(knobs, files, fullName);
    await mirror.syncUntilFresh();
    mirror.service.write(mirror.repository, 'main', 'a.xlsx', 'a2');
    mirror.service.knobs.contentsOf = () => contentsNow(mirror, others);
    await expectDoubt(mirror, Object.keys(others).join());
    expect(await mirror.tree()).toEqual(files);
    mirror.service.knobs.contentsOf = null;
    expect(await mirror.syncUntilFresh()).toEqual([0]);
    expect(await mirror.tree()).toEqual({ ...files, 'a.xlsx': 'a2' });
  },
);

it('old bytes of a new version are not called equal by diff --upstream either', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const { service, repository, run } = mirror;
  const old = contentsNow(mirror);
  service.write(repository, 'main', 'a.xlsx', 'a2');
  service.knobs.contentsOf = () => old;
  const diff = ['diff', '--upstream', 'host.example/plan.git/main'] as const;
  const doubtful = await run(...diff);
  expect(doubtful).toMatchObject({ exitCode: 2, stdout: '' });
  expect(doubtful.stderr).toContain('bytes of the version before');
  service.knobs.contentsOf = null;
  expect((await run(...diff)).stdout).toContain('a.xlsx');
});

it.each(['a commit after the list', 'contents of a cache, older than the list'])(
  'diff --upstream shows what a pass would publish: with %s',
  async (which) => {
    const mirror = await user();
    await mirror.syncUntilFresh();
    const { service, repository, run } = mirror;
    service.write(repository, 'main', 'notes.txt', 'n2');
    const old = contentsNow(mirror);
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.knobs.beforeDownload = () => {
      service.knobs.beforeDownload = null;
      if (which === 'a commit after the list') service.write(repository, 'main', 'b.xlsx', 'b2');
      else Object.assign(service.knobs, { headers: { age: '10' }, contentsOf: () => old });
    };
    vi.setSystemTime(Date.now() + 25 * 3_600_000);
    const diff = await run('diff', '--upstream', 'host.example/plan.git/main');
    expect(diff, diff.stderr).toMatchObject({ exitCode: 1 });
    expect(diff.stdout).toContain('notes.txt');
  },
);

it('"not modified" is not asked for again once it contradicts the list', async () => {
  const mirror = await user(TAGGED);
  await mirror.syncUntilFresh();
  mirror.service.write(mirror.repository, 'main', 'a.xlsx', 'a2');
  mirror.service.knobs.contentsOf = () => contentsNow(mirror, { 'a.xlsx': 'a1' });
  await expectDoubt(mirror, 'a.xlsx');
  const { length } = mirror.service.requests;
  await mirror.run('poll');
  const asked = mirror.service.requests.slice(length).filter(({ path }) => path.includes('/contents'));
  expect(asked.map(({ headers }) => headers['if-none-match'])).toEqual([undefined]);
});

it('contents without a deletion of the list are waited for, and then believed, without a version', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const old = contentsNow(mirror);
  mirror.service.remove(mirror.repository, 'main', 'b.xlsx');
  mirror.service.knobs.contentsOf = () => old;
  await expectDoubt(mirror, 'b.xlsx');
  expect(await mirror.syncUntilFresh()).toEqual([1, 0]);
  expect(await mirror.tree()).toEqual(FILES);
  expect((await mirror.versions())['b.xlsx']).toBeUndefined();
});

it('contents that still have another deleted workbook each time are not believed', async () => {
  const mirror = await user({}, { ...FILES, 'c.xlsx': 'c1', 'd.xlsx': 'd1' });
  await mirror.syncUntilFresh();
  for (const path of ['a.xlsx', 'b.xlsx', 'c.xlsx']) {
    const old = contentsNow(mirror);
    mirror.service.remove(mirror.repository, 'main', path);
    mirror.service.knobs.contentsOf = () => old;
    await expectDoubt(mirror, path);
  }
  mirror.service.knobs.contentsOf = null;
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  expect(await mirror.tree()).toEqual({ 'd.xlsx': 'd1', 'notes.txt': 'n1' });
});

it('a deleted branch whose contents are deleted later is not taken for one whose workbooks the list shows elsewhere', async () => {
  const { service, repository, run, states } = await user();
  service.fork(repository, 'main', 'side');
  service.write(repository, 'side', 'a.xlsx', 'a2');
  expect((await run('sync')).exitCode).toBe(0);
  const old = new Map(repository.branches.get('side')?.files);
  repository.branches.delete('side');
  service.knobs.contentsOf = (_repository, branch) => (branch === 'side' ? old : undefined);
  await run('sync');
  service.knobs.contentsOf = null;
  await run('sync');
  expect(await states()).toEqual({ main: 'fresh', side: 'missing' });
});

it('contents that contradict the list do so even if their repository gets another name', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const { service, repository } = mirror;
  const old = contentsNow(mirror);
  service.write(repository, 'main', 'new.xlsx', 'n1');
  service.knobs.contentsOf = () => old;
  service.knobs.beforeDownload = () => service.renameRepository(repository, 'host.example/renamed.git');
  await expectDoubt(mirror, 'new.xlsx');
});

it.each(['no list at all', 'an empty list'])('the versions of unchanged files outlive %s', async (which) => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const { service, repository } = mirror;
  const old = contentsNow(mirror);
  const branch = repository.branches.get('main');
  const versions = [...(branch?.versions ?? [])];
  if (which === 'an empty list') branch?.versions.clear();
  else service.knobs.v1 = '404';
  await mirror.run('sync');
  service.knobs.v1 = 'on';
  for (const [path, version] of versions) branch?.versions.set(path, version);
  service.write(repository, 'main', 'a.xlsx', 'a2');
  service.knobs.contentsOf = () => old;
  await expectDoubt(mirror, 'a.xlsx');
});

it('the versions of unchanged files outlive contents from a cache', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const before = await mirror.versions();
  const { service, repository } = mirror;
  service.write(repository, 'main', 'notes.txt', 'n2');
  service.fault = (path) => {
    service.knobs.headers = path.includes('/contents') ? { age: '10' } : {};
    return null;
  };
  vi.setSystemTime(Date.now() + 25 * 3_600_000);
  await mirror.run('sync');
  expect(await mirror.tree()).toMatchObject({ 'notes.txt': 'n2' });
  expect(await mirror.versions()).toEqual(before);
});

it('the version of a file that is repaired without a list of workbooks stays', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const before = await mirror.versions();
  await writeFile(mirror.file('b.xlsx'), 'changed by someone');
  mirror.service.knobs.v1 = '404';
  await mirror.run('verify', '--repair');
  expect([await mirror.tree(), await mirror.versions()]).toEqual([FILES, before]);
});

it('contents of a workbook that is still processed may have other bytes under the same version', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const { service, repository } = mirror;
  service.write(repository, 'main', 'b.xlsx', 'b2');
  service.version(repository, 'main', 'a.xlsx').processing = 1;
  service.knobs.contentsOf = () => contentsNow(mirror, { 'a.xlsx': 'a2' });
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  expect(await mirror.tree()).toEqual({ ...FILES, 'a.xlsx': 'a2', 'b.xlsx': 'b2' });
});

it('old contents of a workbook that is still processed are not believed for a quarter of an hour', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const { service, repository } = mirror;
  const old = contentsNow(mirror);
  service.write(repository, 'main', 'a.xlsx', 'a2');
  service.version(repository, 'main', 'a.xlsx').processing = 1;
  service.knobs.contentsOf = () => old;
  for (let answers = 0; answers < 5; answers += 1) await expectDoubt(mirror, 'a.xlsx');
  vi.setSystemTime(Date.now() + 15 * 60_000);
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  expect(await mirror.tree()).toEqual(FILES);
});

describe('a commit between the list and the contents', () => {
  it.each([
    ['changes a workbook', {}, 'b2'],
    ['changes a workbook whose digest is listed', { digests: true }, 'b2'],
    ['deletes a workbook', {}, null],
  ] as const)(
    'contradicts nothing, gives no workbook a version that may be wrong, and the next pass has the right ones: it %s',
    async (_name, knobs, text) => {
      const mirror = await user(knobs);
      await mirror.syncUntilFresh();
      const { service, repository } = mirror;
      service.write(repository, 'main', 'a.xlsx', 'a2');
      service.knobs.afterPage = () => {
        service.knobs.afterPage = null;
        service.write(repository, 'main', 'a.xlsx', 'a3');
        if (text === null) service.remove(repository, 'main', 'b.xlsx');
        else service.write(repository, 'main', 'b.xlsx', text);
      };
      const { 'b.xlsx': _, ...others } = { ...FILES, 'a.xlsx': 'a3' };
      const now = text === null ? others : { ...others, 'b.xlsx': text };
      expect(await mirror.syncUntilFresh()).toEqual([0]);
      expect(await mirror.tree()).toEqual(now);
      expect(Object.values(await mirror.versions())).toEqual(Object.keys(now).map(() => undefined));
      expect(await said(mirror)).toMatchObject({ exitCode: 0, state: 'fresh' });
      expect(await mirror.tree()).toEqual(now);
      const listed = [...(repository.branches.get('main')?.versions ?? [])];
      expect(await mirror.versions()).toMatchObject(
        Object.fromEntries(listed.map(([path, { id }]) => [path, id])),
      );
    },
  );

  it.each([
    ['the contents lack the workbook', undefined, 'b3', {}],
    ['the contents have the bytes of the version before both', 'b1', 'b3', {}],
    ['the second list is incomplete', undefined, null, { id: 7 }],
  ])('explains nothing if %s', async (_what, text, next, row) => {
    const mirror = await user();
    await mirror.syncUntilFresh();
    const { service, repository } = mirror;
    service.write(repository, 'main', 'a.xlsx', 'a2');
    if (next !== null) service.write(repository, 'main', 'b.xlsx', 'b2');
    service.knobs.contentsOf = () => contentsNow(mirror, { 'b.xlsx': text });
    service.knobs.afterPage = () => {
      service.knobs.afterPage = null;
      service.knobs.listedAs = (path) => (path === 'b.xlsx' ? row : {});
      if (next !== null) service.write(repository, 'main', 'b.xlsx', next);
    };
    expect((await mirror.run('sync')).exitCode).toBe(1);
    expect(await mirror.tree()).toEqual(FILES);
  });
});

it.each([
  ['another size in a new file', { size: 7 }, 'new'],
  ['another digest of a new version', { digest: 'f'.repeat(64) }, 'b2'],
  ['another digest of a file that did not change', { digest: 'f'.repeat(64) }, 'b1'],
])('size and digest of the list are never overruled by an archive: %s', async (_name, file, text) => {
  const mirror = await user({}, text === 'new' ? { 'a.xlsx': 'a1' } : FILES);
  await mirror.syncUntilFresh();
  const before = await mirror.tree();
  mirror.service.write(mirror.repository, 'main', 'a.xlsx', 'a2');
  if (text !== 'b1') mirror.service.write(mirror.repository, 'main', 'b.xlsx', text);
  mirror.service.knobs.listedAs = (path) => (path === 'b.xlsx' ? { file } : {});
  await expectDoubt(mirror, 'b.xlsx');
  expect(await mirror.syncUntilFresh()).toEqual(Array.from({ length: MANY }, () => 1));
  expect(await mirror.tree()).toEqual(before);
  mirror.service.knobs.listedAs = null;
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  expect(await mirror.tree()).toMatchObject({ 'a.xlsx': 'a2', 'b.xlsx': text });
});

describe('a listed workbook that the contents lack', () => {
  it.each(['at first', 'later'])(
    'is believed once several answers agree, with a warning that stays: %s',
    async (when) => {
      const mirror = await user();
      if (when === 'later') await mirror.syncUntilFresh();
      mirror.service.write(mirror.repository, 'main', 'a.xlsx', 'a2');
      mirror.service.knobs.contentsOf = () => contentsNow(mirror, { 'b.xlsx': undefined });
      expect(await mirror.syncUntilFresh()).toEqual([1, 1, 0]);
      expect(await mirror.tree()).toEqual({ 'a.xlsx': 'a2', 'notes.txt': 'n1' });
      mirror.service.write(mirror.repository, 'main', 'a.xlsx', 'a3');
      const warned = await said(mirror);
      expect(warned).toMatchObject({ exitCode: 0, state: 'fresh' });
      for (const text of [warned.status, warned.why]) expect(text).toMatch(/"b\.xlsx".* contents lack it/);
      mirror.service.remove(mirror.repository, 'main', 'b.xlsx');
      const after = await said(mirror);
      expect(after).toMatchObject({ exitCode: 0, state: 'fresh' });
      expect(after.status + after.why).not.toContain('b.xlsx');
    },
  );

  it('returns within the hour if the contents have it again, without a new version', async () => {
    const mirror = await user();
    mirror.service.knobs.contentsOf = () => contentsNow(mirror, { 'b.xlsx': undefined });
    expect(await mirror.syncUntilFresh()).toEqual([1, 1, 0]);
    await expectIdle(mirror);
    mirror.service.knobs.contentsOf = null;
    vi.setSystemTime(Date.now() + 3_600_000);
    const { exitCode, status } = await said(mirror);
    expect({ exitCode, tree: await mirror.tree() }).toEqual({ exitCode: 0, tree: FILES });
    expect(status).not.toContain('b.xlsx');
  });

  it('is removed immediately if the list deletes it or no longer shows it', async () => {
    const mirror = await user();
    await mirror.syncUntilFresh();
    mirror.service.write(mirror.repository, 'main', 'a.xlsx', 'a2');
    mirror.service.knobs.contentsOf = () => contentsNow(mirror, { 'a.xlsx': undefined, 'b.xlsx': undefined });
    mirror.service.remove(mirror.repository, 'main', 'b.xlsx');
    const { id } = mirror.service.version(mirror.repository, 'main', 'a.xlsx');
    const deleted = { id, branch: 'main', action: 'deleted', status: 'success' };
    mirror.service.knobs.listedAs = () => ({ version: deleted });
    expect(await mirror.syncUntilFresh()).toEqual([0]);
    expect(await mirror.tree()).toEqual({ 'notes.txt': 'n1' });
  });
});

const NFC = 'Übersicht.xlsx'.normalize('NFC');
const NFD = NFC.normalize('NFD');
const listAsNfc: Partial<FakeKnobs> = {
  listedAs: (path) => ({ name: `/${path.normalize('NFC')}`, id: path.normalize('NFC') }),
};

it.each(['host.example/plan.git', 'Accounting'])(
  'a name in another Unicode form in the contents than in the list is the same workbook: %s',
  async (fullName) => {
    const mirror = await user(listAsNfc, { [NFD]: 'u1', 'b.xlsx': 'b1'.repeat(99) }, fullName);
    const { service, repository } = mirror;
    expect(await mirror.syncUntilFresh()).toEqual([0]);
    expect(Object.keys(await mirror.tree())).toContain(NFD);
    expect((await mirror.versions())[NFD]).toBe(service.version(repository, 'main', NFD).id);
    service.write(repository, 'main', NFD, 'u2');
    expect(await mirror.syncUntilFresh()).toEqual([0]);
    expect((await mirror.tree())[NFD]).toBe('u2');
    expect((await mirror.versions())[NFD]).toBe(service.version(repository, 'main', NFD).id);
    await expectIdle(mirror);
  },
);

it('a new version that the contents lack is accepted once, also while another row cannot be read', async () => {
  const mirror = await user();
  const { service, repository } = mirror;
  service.knobs.contentsOf = () => new Map([...contentsNow(mirror)].filter(([path]) => path !== 'a.xlsx'));
  service.knobs.listedAs = (path) => (path === 'b.xlsx' ? { name: 7 } : {});
  expect(await mirror.syncUntilFresh()).toEqual([1, 1, 0]);
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  vi.setSystemTime(Date.now() + 30_000);
  service.write(repository, 'main', 'a.xlsx', 'a2');
  Object.assign(repository.branches.get('main')?.versions.get('a.xlsx') ?? {}, { createdAt: new Date() });
  expect(await mirror.syncUntilFresh()).toEqual([1, 1, 0]);
  expect(await mirror.syncUntilFresh()).toEqual([0]);
});

it('a list without a row of a repository with workbooks verifies nothing, so its contents are compared, during a lease, too', async () => {
  const mirror = await user();
  await mirror.syncUntilFresh();
  const { service, repository } = mirror;
  // A token that sees no repository gets no rows.
  service.knobs.arrange = (rows) => rows.filter((row) => !(row instanceof Object && 'integration' in row));
  expect(await mirror.syncUntilFresh()).toEqual([1, 1, 0]);
  service.write(repository, 'main', 'a.xlsx', 'a2');
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  expect(await mirror.tree()).toMatchObject({ 'a.xlsx': 'a2' });
  await mirror.run('lease', 'acquire', '--for', '1h');
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  // A lost tree would only be downloaded in vain.
  await rm(mirror.file('.'), { recursive: true });
  await expectIdle(mirror, 1);
});

it('a repository with workbooks of a type that the service does not list is not downloaded again', async () => {
  const mirror = await user({}, { 'budget.ods': 'o1', 'notes.txt': 'n1' });
  mirror.service.addRepository('Accounting', { 'a.xlsx': 'a1' });
  await mirror.run('sync');
  await expectIdle(mirror);
});

it('contents that still have a workbook do not count for a list that may lack rows', async () => {
  const mirror = await user({ countOffset: 1 });
  await mirror.syncUntilFresh();
  const late = contentsNow(mirror);
  mirror.service.knobs.contentsOf = () => late;
  mirror.service.remove(mirror.repository, 'main', 'b.xlsx');
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  mirror.service.knobs.contentsOf = null;
  expect(await mirror.syncUntilFresh()).toEqual([0]);
  expect(await mirror.tree()).toEqual({ 'a.xlsx': 'a1', 'notes.txt': 'n1' });
  await expectIdle(mirror);
});
