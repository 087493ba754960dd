import { createHash } from 'node:crypto';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { type FileChange, makeCommits } from '../../src/server/demo/commits.ts';
import { Git } from '../../src/server/git/git.ts';
import { createGitLibrary } from '../../src/server/git/library.ts';
import { openRegistry } from '../../src/server/git/repositories.ts';
import { plan, write } from '../support/commits.ts';
import { startEmbedded } from '../support/embedded.ts';
import { KEY, startGitService, TOKEN } from '../support/git-service.ts';
import { runWith } from '../support/in-process.ts';
import { start, startDaemon } from '../support/program.ts';
import { startReplica } from '../support/replica.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** Every file below a mirror with its bytes, mode and time, and every folder. */
async function contentsOf(directory: string): Promise<Record<string, string>> {
  const root = join(directory, 'mirror');
  const contents: Record<string, string> = {};
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const { mode, mtimeMs } = await lstat(path);
    contents[relative(root, path)] = entry.isDirectory()
      ? 'folder'
      : `${(mode & 0o7777).toString(8)} ${mtimeMs} ${createHash('sha256')
          .update(await readFile(path))
          .digest('hex')}`;
  }
  return contents;
}

/** Runs a pass and gives the targets that it pulled. */
async function sync(settings: Readonly<Record<string, string>>): Promise<string[]> {
  const { exitCode, stdout, stderr } = await runWith(['sync', '--json'], settings);
  expect({ exitCode, stderr: exitCode === 0 ? '' : stderr }).toEqual({ exitCode: 0, stderr: '' });
  const { targets } = JSON.parse(stdout) as { targets: { target: string; action: string }[] };
  return targets.filter(({ action }) => action === 'pull').map(({ target }) => target);
}

/** Syncs until a new version with the bytes of the last one is accepted. */
async function syncUntilBelieved(settings: Readonly<Record<string, string>>): Promise<void> {
  for (let tries = 0; tries < 20 && (await runWith(['sync'], settings)).exitCode !== 0; tries += 1)
    await sleep(500);
  await sync(settings);
}

/** A service on Git with all kinds of names. */
async function startOdd() {
  const folder = await temporaryFolder();
  const registry = await openRegistry(join(folder, 'service'), { sources: 'any' });
  const git = new Git();
  const library = createGitLibrary(registry);
  const hidden = new Set<string>();
  const { baseUrl } = await startGitService(
    registry,
    undefined,
    {},
    {
      ...library,
      repositories: async () => (await library.repositories()).filter(({ id }) => !hidden.has(id)),
      workbooks: async () => {
        const { rows, statusOf } = await library.workbooks();
        const listed = (await library.repositories()).filter(({ id }) => !hidden.has(id));
        const names = new Set(listed.map(({ full_name }) => full_name));
        return { rows: rows.filter(({ integration }) => names.has(integration)), statusOf };
      },
    },
  );
  onTestFinished(() => git.stop());
  let second = 0;
  return {
    registry,
    hide: (id: string) => hidden.add(id),
    removeBranch: (id: string, branch: string) =>
      git.run(registry.gitDirectory(id), ['update-ref', '-d', `refs/heads/${branch}`]),
    commit: (id: string, branch: string, changes: readonly FileChange[], from?: string) => {
      second += 61;
      const at = new Date(Date.UTC(2026, 0, 2, 3, 4, second));
      const more = { at, message: 'Änderung\n', ...(from === undefined ? {} : { from }) };
      return makeCommits(git, registry.gitDirectory(id), [plan(branch, changes, more)]);
    },
    settingsFor: (directory: string) => ({
      WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
      WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
      WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN,
      WORKBOOK_MIRROR_GUARD_TARGETS: 'off',
      WORKBOOK_MIRROR_DIRECTORY: directory,
    }),
  };
}

const LONG = 'ä'.repeat(120);
const ODD = [
  write('100%.xlsx', 'percent'),
  write('a%2Fb.xlsx', 'encoded'),
  write(' leading and trailing .xlsx ', 'spaces'),
  write('naïve 資料/ß.XLSX', 'unicode'),
  write('e\u0301.xlsx', 'decomposed'),
  write(`${LONG}/${LONG}.xlsx`, 'long'),
  write('run.sh', '#!/bin/sh\n', true),
  write('empty.csv', ''),
  write('con', 'device'),
  write('deep/a/b/c/d/e/f.xlsx', 'deep'),
];

describe('a mirror of a replica', () => {
  it('equals the mirror of the original byte for byte across three mirrors, settles, and follows every edit', async () => {
    const embedded = await startEmbedded();
    const a = embedded.directory;
    const [b, c] = [join(await temporaryFolder(), 'b'), join(await temporaryFolder(), 'c')];
    await sync(embedded.settings);
    const first = await startReplica(a);
    expect(await sync(first.settingsFor(b))).toHaveLength(6);
    const second = await startReplica(b);
    expect(await sync(second.settingsFor(c))).toHaveLength(6);
    const original = await contentsOf(a);
    expect(Object.keys(original).length).toBeGreaterThan(40);
    expect(await contentsOf(b)).toEqual(original);
    expect(await contentsOf(c)).toEqual(original);
    expect(await sync(first.settingsFor(b))).toEqual([]);
    expect(await sync(second.settingsFor(c))).toEqual([]);
    for (let edits = 0; edits < 3; edits += 1) {
      const { repository, branch } = await embedded.edit();
      const pulled = [`${repository}/${encodeURIComponent(branch)}`];
      expect(await sync(embedded.settings)).toEqual(pulled);
      expect(await sync(first.settingsFor(b))).toEqual(pulled);
      expect(await sync(second.settingsFor(c))).toEqual(pulled);
      expect(await contentsOf(c)).toEqual(await contentsOf(a));
      expect(await contentsOf(b)).toEqual(await contentsOf(a));
    }
  });

  it('is equal with any names, and follows deletions', async () => {
    const odd = await startOdd();
    const folder = await temporaryFolder();
    const accounts = await odd.registry.create('Accounting');
    const [commit] = await odd.commit(accounts.id, 'main', ODD);
    await odd.commit(accounts.id, 'feature/x/y', [write('100%.xlsx', 'other')], commit);
    await odd.commit(accounts.id, 'FEATURE/x/y', [write('100%.xlsx', 'case')], commit);
    const same = await odd.registry.create('ACCOUNTING');
    await odd.commit(same.id, 'main', [write('a.xlsx', 'the same name in capitals')]);
    await odd.registry.create('Empty one');
    const text = await odd.registry.create('Only text');
    await odd.commit(text.id, 'main', [write('a.txt', 'no workbook')]);
    const a = odd.settingsFor(join(folder, 'a'));
    await sync(a);
    const replica = await startReplica(join(folder, 'a'));
    const b = { ...replica.settingsFor(join(folder, 'b')), WORKBOOK_MIRROR_GUARD_TARGETS: 'off' };
    await sync(b);
    const original = await contentsOf(join(folder, 'a'));
    const branches = Object.keys(original).filter((path) =>
      /^Accounting\/feature%2Fx%2Fy[^/]*\/100%\.xlsx$/i.test(path),
    );
    expect(branches).toHaveLength(2);
    expect(Object.keys(original)).toContain('Only text/HEAD/a.txt');
    expect(original['Empty one/HEAD']).toBe('folder');
    expect(await contentsOf(join(folder, 'b'))).toEqual(original);
    // A HEAD without a list of versions, and a text, are asked for again at the next full check only.
    expect(await sync(b)).toEqual([]);
    await odd.removeBranch(accounts.id, 'feature/x/y');
    odd.hide(same.id);
    // A missing target is retired after the second answer without it.
    for (const settings of [a, b]) {
      await runWith(['sync'], settings);
      await sync(settings);
    }
    const after = await contentsOf(join(folder, 'a'));
    expect(Object.keys(after).filter((path) => /^Accounting\/feature[^/]*$/i.test(path))).toHaveLength(1);
    expect(Object.keys(after).length).toBeLessThan(Object.keys(original).length);
    expect(await contentsOf(join(folder, 'b'))).toEqual(after);
  });

  it('has the times of the files in the original, even if a version is newer than its file', async () => {
    const odd = await startOdd();
    const folder = await temporaryFolder();
    const { id } = await odd.registry.create('Accounting');
    await odd.commit(id, 'main', [write('a.xlsx', 'one'), write('b.xlsx', 'one')]);
    const a = odd.settingsFor(join(folder, 'a'));
    await sync(a);
    const replica = await startReplica(join(folder, 'a'));
    const early = replica.settingsFor(join(folder, 'early'));
    await sync(early);
    // There and back: the bytes are the same, the version is another one, and the file keeps its time.
    await odd.commit(id, 'main', [write('a.xlsx', 'two')], 'refs/heads/main^0');
    await odd.commit(id, 'main', [write('a.xlsx', 'one')], 'refs/heads/main^0');
    await syncUntilBelieved(a);
    // If a pass sees the state between, the file has a new time.
    await odd.commit(id, 'main', [write('b.xlsx', 'two')], 'refs/heads/main^0');
    await sync(a);
    await odd.commit(id, 'main', [write('b.xlsx', 'one')], 'refs/heads/main^0');
    await sync(a);
    await sync(early);
    const late = replica.settingsFor(join(folder, 'late'));
    await sync(late);
    const original = await contentsOf(join(folder, 'a'));
    expect(await contentsOf(join(folder, 'early'))).toEqual(original);
    expect(await contentsOf(join(folder, 'late'))).toEqual(original);
  });
});

it('serve --from-mirror answers next to the daemon, reports its age, and ends with 0', async () => {
  const embedded = await startEmbedded();
  await sync(embedded.settings);
  await startDaemon(embedded.settings);
  const serve = start(['serve', '--from-mirror', '--serve-listen', '127.0.0.1:0'], embedded.settings);
  await serve.prints(/^http:/m);
  expect(serve.stderr()).toContain('read-only: 3 repositories, 6 branches.');
  expect(serve.stderr()).toMatch(/Oldest data: verified .* The daemon's last pass: .* ago\./);
  const baseUrl = serve.stdout().trim();
  const key = /apiKey: (\S+)/.exec(serve.stderr())?.[1] ?? '';
  const answer = await fetch(`${baseUrl}/repos`, { headers: { 'x-api-key': key } });
  expect(await answer.json()).toHaveLength(3);
  expect((await serve.stop()).exitCode).toBe(0);
});
