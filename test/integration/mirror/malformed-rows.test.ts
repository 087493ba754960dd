import { describe, expect, it } from 'vitest';

import { API_TOKEN } from '../../support/fake-service.ts';
import { startMirrored } from '../../support/mirror-harness.ts';
import { startCommands, startSynced } from '../../support/mirror-commands.ts';

/** A mirror of two targets; the row of a new version of one cannot be read. */
async function mirrored() {
  const repositories = { Accounting: { 'a.xlsx': 'a', 'b.xlsx': 'b' }, Other: { 'o.xlsx': 'o' } };
  const commands = await startSynced(repositories, { etag: 'strong', conditional: true });
  const { service } = commands;
  const accounting = service.named();
  service.takeRequests();
  /** Makes the service write a version of `Accounting/a.xlsx` that the list shows by this row. */
  const hideBehind = (row: unknown): void => {
    service.write(accounting, 'main', 'a.xlsx', 'a, second version');
    accounting.branches.get('main')?.versions.delete('a.xlsx');
    service.knobs.malformedWorkbooks = [row];
  };
  return { ...commands, hideBehind };
}

const ROW = {
  type: 'workbook',
  id: 'Accounting/a.xlsx',
  name: '/a.xlsx',
  integration: 'Accounting',
  version: { id: 'f'.repeat(40), branch: 'main' },
};

const ofAccounting: readonly [string, unknown, string][] = [
  ['has a version without an id', { ...ROW, version: { branch: 'main' } }, 'version.id'],
  [
    'has a version without a branch',
    { ...ROW, version: { id: 'f'.repeat(40), branch: '' } },
    'version.branch',
  ],
  ['has no name', { ...ROW, name: 7 }, 'name'],
  ['names its repository only by its id', { ...ROW, integration: null }, 'integration'],
];

describe('a row of the list of workbooks that cannot be read', () => {
  it('never brings a key that it repeats into what is stored or shown', async () => {
    const { command, hideBehind } = await mirrored();
    hideBehind({ ...ROW, id: `of ${API_TOKEN}`, name: 7 });
    await command(['sync']);
    expect((await command(['status'])).stdout).toContain('of [secret]');
  });

  it.each(ofAccounting)('and %s causes a full comparison of its repository', async (_name, row, field) => {
    const { command, service, text, hideBehind } = await mirrored();
    hideBehind(row);
    const { exitCode, stderr } = await command(['sync']);
    expect(exitCode).toBe(0);
    expect(stderr).toContain('"Accounting/a.xlsx"');
    expect(stderr).toContain(JSON.stringify(field));
    expect(await text('mirror/Accounting/main/a.xlsx')).toBe('a, second version');
    expect(service.takeDownloads()).toHaveLength(1);
    for (const args of [['plan'], ['status']]) {
      const shown = await command(args);
      expect(shown.stdout + shown.stderr).toContain(JSON.stringify(field));
    }
    // While the row exists, every pass asks, at little cost; the same bytes are not pulled again.
    expect((await command(['sync'])).exitCode).toBe(0);
    expect(service.takeDownloads()).toHaveLength(1);
    service.write(service.named(), 'main', 'a.xlsx', 'a, third version');
    service.named().branches.get('main')?.versions.delete('a.xlsx');
    await command(['sync']);
    expect(await text('mirror/Accounting/main/a.xlsx')).toBe('a, third version');
  });

  it.each([null, { id: 'x', name: 'y', version: null }])(
    'and does not name its repository (%j) prevents verification by the list',
    async (row) => {
      const { command, status, text, service, hideBehind } = await mirrored();
      hideBehind(row);
      const verifiedAt = async () => (await status())['Other/main']?.verifiedAtMs;
      const before = await verifiedAt();
      const { exitCode, stderr } = await command(['sync', '--json']);
      expect(exitCode).toBe(1);
      expect(stderr.match(/verifies no target/g)).toHaveLength(1);
      expect(stderr).toContain('row 3');
      expect(await verifiedAt()).toBe(before);
      expect((await command(['why', 'Other/main'])).stdout).toContain('row-unreadable');
      const shown = await command(['status']);
      expect(shown.exitCode).toBe(1);
      expect(shown.stdout).toMatch(/^late .*Other\/main$/m);
      service.knobs.malformedWorkbooks = [];
      service.write(service.named(), 'main', 'a.xlsx', 'a, third version');
      expect((await command(['sync'])).exitCode).toBe(0);
      expect(await text('mirror/Accounting/main/a.xlsx')).toBe('a, third version');
    },
  );
});

it.each(['main', 'dev'])(
  'a workbook of the branch %s that is deleted together with its unreadable row leaves with the next pass',
  async (branch) => {
    const { service, mirror, repository } = await startMirrored('Plan', { 'a.xlsx': 'a' });
    service.write(repository, branch, 'a.xlsx', 'a2');
    service.write(repository, branch, 'b.xlsx', 'b');
    service.knobs.listedAs = (path) => (path === 'b.xlsx' ? { name: 7 } : {});
    await mirror.exactPass();
    service.remove(repository, branch, 'b.xlsx');
    await mirror.exactPass({ trigger: 'schedule' });
    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expect(service.takeDownloads()).toStrictEqual([]);
  },
);

it('a branch that only a row names which cannot be read is mirrored all the same', async () => {
  const { command, service, text } = await startCommands();
  const repository = service.addRepository('Plan', { 'a.xlsx': 'a' });
  expect((await command(['sync'])).exitCode).toBe(0);
  service.write(repository, 'dev', 'b.xlsx', 'b');
  service.knobs.listedAs = (_path, branch) => (branch === 'dev' ? { name: 7 } : {});
  expect((await command(['sync'])).exitCode).toBe(0);
  expect(await text('mirror/Plan/dev/b.xlsx')).toBe('b');
});

it('a row of the list of repositories that cannot be read is reported, and makes the pass end with 1, as its repository is not mirrored', async () => {
  const { command, service } = await mirrored();
  service.knobs.malformedRepositories = [{ id: 'x', name: 'Budget', full_name: null }];
  const { exitCode, stderr } = await command(['sync']);
  expect(exitCode).toBe(1);
  expect(stderr).toContain('"x"');
  expect(stderr).toContain('"full_name"');
});

it('a list of repositories with further pages ends the pass with 1, and proves of none that it is gone', async () => {
  const { service, mirror } = await startMirrored('Plan', { 'a.xlsx': 'a' });
  const other = service.addRepository('Other', { 'a.xlsx': 'a' });
  const link = `<${service.baseUrl}/repos>; rel=first, <${service.baseUrl}/repos?page=2>; rel = "last next"`;
  const codes: number[] = [];
  // First with the same bytes as the whole list.
  for (const headers of [{}, { link }, { link }, { link }, { link }, {}]) {
    service.knobs.headers = headers;
    codes.push((await mirror.pass()).exitCode);
    if (codes.length === 2) service.removeRepository(other);
  }
  expect(codes).toEqual([0, 1, 1, 1, 1, 0]);
  expect(await mirror.targets()).toContain('Other/main');
});
