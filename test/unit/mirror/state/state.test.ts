import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { type Database, openInMemory } from '../../../../src/mirror/state/database.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import { openState, State, type StateOptions, type StoredPass } from '../../../../src/mirror/state/state.ts';
import {
  failure,
  NOW_MS,
  record,
  recordMap,
  repository,
  target,
  passFinished,
} from '../../../support/builders.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let folder = '';
let file = '';
let resets: string[] = [];
let open: State[] = [];

beforeEach(async () => {
  folder = await temporaryFolder();
  file = join(folder, 'state.db');
  resets = [];
  open = [];
});

afterEach(async () => {
  for (const state of open) await state.close();
});

async function opened(fields: Partial<StateOptions> = {}): Promise<State> {
  const state = await openState({
    address: 'sqlite',
    file,
    directoryId: 'directory',
    sharedService: null,
    readOnly: false,
    listener: { onFailed: () => {}, onRecovered: () => {} },
    onReset: (reason) => resets.push(reason),
    ...fields,
  });
  open.push(state);
  return state;
}

async function closed(state: State): Promise<void> {
  open = open.filter((each) => each !== state);
  await state.close();
}

/** Changes the file behind the program's back. */
function behind(work: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(file);
  try {
    work(database);
  } finally {
    database.close();
  }
}

const RECORDS = [
  record({ verifiedAtMs: NOW_MS, missingPasses: 2, failure: failure({ hint: 'Wait.' }) }),
  record({
    target: target('feature/x — ü😀\n"', repository({ id: 'odd\u0000id' })),
    decisions: [{ kind: 'keep', reason: 'unchanged', result: 'kept', firstAtMs: 1 }],
  }),
  record({ target: target('x'.repeat(5000)) }),
];
const PASS: StoredPass = {
  trigger: 'schedule',
  startedAtMs: 1,
  finishedAtMs: 2,
  listedAtMs: null,
  summary: passFinished({ targets: 1, pulled: 1, changed: 1, downloadedBytes: 5, changedFiles: 1 }),
  failure: null,
  selection: { repositories: 1, selected: 1, unmatched: [] },
  publishesWhole: false,
  isWhole: true,
  problems: [],
};

describe('the state cache', () => {
  it('keeps records when closed and reopened', async () => {
    const failures = { '["a","main"]': { versionId: 'v1', count: 2 } };
    const installation = { baseUrl: 'https://s/api', referenceForm: 'name' } as const;
    const before = await opened();
    await before.saveRecords(RECORDS);
    await before.savePass(PASS, null);
    await before.save('reported-failures', failures);
    await before.save('installation', installation);
    await closed(before);
    const state = await opened();
    expect(await state.records()).toEqual(recordMap(...RECORDS));
    expect(await state.lastPass()).toEqual(PASS);
    expect(await state.read('reported-failures')).toEqual(failures);
    expect(await state.read('installation')).toEqual(installation);
  });

  it('ignores a stored record without a target', async () => {
    const { target, ...rest } = record({ missingPasses: 1 });
    const state = await opened();
    await state.saveRecords([{ ...rest, target: { ...target, branch: '' } }]);
    await closed(state);
    expect((await (await opened()).records()).size).toBe(0);
  });

  it('forgets only what the caller names', async () => {
    const state = await opened();
    await state.saveRecords(RECORDS);
    await state.savePass(PASS, null);
    await state.forgetRecords([...RECORDS.slice(0, 2), record({ target: target('unknown') })]);
    expect([...(await state.records()).keys()]).toEqual([targetKey(target('x'.repeat(5000)))]);
    await state.forgetRecords([]);
    await state.saveRecords([]);
    expect(await state.lastPass()).toEqual(PASS);
  });

  it('keeps directories that share a store apart', async () => {
    const one = await opened({ directoryId: 'one' });
    const two = await opened({ directoryId: 'two' });
    await one.saveRecords([record({ missingPasses: 1 })]);
    await two.savePass(PASS, null);
    expect((await two.records()).size).toBe(0);
    expect(await one.lastPass()).toBeNull();
  });

  it.each<[string, string | null | Uint8Array]>([
    ['no JSON', '{"value":'],
    ['another shape', '{"value":{"target":{"repositoryId":"x"}}}'],
    ['NULL', null],
    ['bytes', new Uint8Array([1, 2, 3])],
  ])('ignores a record that is %s, and no other', async (_what, value) => {
    const before = await opened();
    await before.saveRecords(RECORDS);
    await closed(before);
    behind((database) => {
      const [first] = database.prepare('SELECT key FROM kv ORDER BY key LIMIT 1').all();
      database.prepare('UPDATE kv SET value = ? WHERE key = ?').run(value, String(first?.['key']));
    });
    const state = await opened();
    expect((await state.records()).size).toBe(RECORDS.length - 1);
    await state.saveRecords(RECORDS);
    expect(await state.records()).toEqual(recordMap(...RECORDS));
    expect(resets).toEqual([]);
  });

  it('ignores documents of another shape', async () => {
    const before = await opened();
    await before.savePass(PASS, null);
    await before.save('installation', { baseUrl: 'x', referenceForm: null });
    await closed(before);
    behind((database) => {
      database.exec(`UPDATE kv SET value = replace(value, 'schedule', 'whim')`);
      database.exec(`UPDATE kv SET value = replace(value, 'baseUrl', 'other')`);
    });
    const state = await opened();
    expect(await state.lastPass()).toBeNull();
    expect(await state.read('installation')).toBeNull();
  });

  it.each([
    ['is no database', 'this is no database, but long enough to be looked at as one'.repeat(20)],
    ['has only the beginning of one', 'SQLite format 3\u0000'.repeat(100)],
  ])('starts empty if its file %s, with a report', async (_what, content) => {
    await writeFile(file, content);
    const state = await opened();
    expect(resets).toHaveLength(1);
    expect(resets[0]).toContain(`${file}.damaged`);
    await state.saveRecords(RECORDS);
    expect((await state.records()).size).toBe(RECORDS.length);
    expect(await readdir(folder)).toContain('state.db.damaged');
  });

  it('starts empty a second time', async () => {
    for (const times of [1, 2]) {
      await writeFile(file, 'this is no database'.repeat(50));
      await rm(`${file}-wal`, { force: true });
      await closed(await opened());
      expect(resets).toHaveLength(times);
    }
  });

  it('starts empty if the table of that name belongs to another program', async () => {
    behind((database) => database.exec('CREATE TABLE kv(id INTEGER PRIMARY KEY, data BLOB)'));
    const state = await opened();
    await state.saveRecords(RECORDS);
    expect(resets).toHaveLength(1);
  });

  it('continues in memory, with a report, if its file cannot be made, and uses the file once it can', async () => {
    file = join(folder, 'missing', 'state.db');
    const state = await opened();
    expect(resets).toEqual([expect.stringContaining('lost when the program ends')]);
    await state.saveRecords(RECORDS);
    expect((await state.records()).size).toBe(RECORDS.length);
    await mkdir(join(folder, 'missing'));
    vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 120_000);
    expect(await state.lastPass()).toBeNull();
    vi.restoreAllMocks();
    const reader = await opened({ readOnly: true });
    expect(await reader.records()).toEqual(await state.records());
  });

  it('writes what it knows to a new file if someone removed or replaced its own', async () => {
    const state = await opened();
    await state.saveRecords(RECORDS);
    const known = await state.records();
    for (const replace of [() => Promise.resolve(), () => writeFile(file, '')]) {
      for (const suffix of ['', '-wal', '-shm']) await rm(file + suffix, { force: true });
      await replace();
      expect(await state.lastPass()).toBeNull();
      expect(await (await opened({ readOnly: true })).records()).toEqual(known);
    }
    expect(resets).toEqual([1, 2].map(() => expect.stringContaining('removed or replaced') as string));
  });

  it('says what is wrong after it was closed', async () => {
    const state = await opened();
    await closed(state);
    await expect(state.records()).rejects.toMatchObject({ code: 'state.unavailable' });
    expect(await state.saveRecords(RECORDS)).toBe(false);
  });

  it('exchanges reports of shares in a common store alone', async () => {
    const listener = { onFailed: vi.fn(), onRecovered: () => {} };
    const times = { writtenAtMs: 1, maxStalenessMs: 1, oldestVerifiedAtMs: null };
    const share = { directoryId: 'd', index: 1, count: 2, host: 'h', ...times, targets: 1, notWell: 0 };
    for (const [reports, found] of [
      ['shares', [{ ...share, failure: null }]],
      [null, []],
    ] as const) {
      const state = new State(openInMemory(), listener, 'd', reports);
      expect(await state.saveShare({ ...share, failure: null })).toBe(true);
      expect(await state.shares()).toEqual(found);
    }
    expect(listener.onFailed).not.toHaveBeenCalled();
  });

  it('reports once that its store fails, and once more that it answers again', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const reports: string[] = [];
    const database = openInMemory();
    let isFailing = true;
    const read: Database['read'] = (...key) =>
      isFailing ? Promise.reject(new Error('gone')) : database.read(...key);
    const onFailed = ({ code }: MirrorError): unknown => reports.push(code);
    const onRecovered = (): unknown => reports.push('recovered');
    const state = new State({ ...database, read }, { onFailed, onRecovered }, 'directory', null);
    for (let minutes = 0; minutes < 3; minutes += 1) {
      expect(await state.read('troubles')).toBeNull();
      vi.advanceTimersByTime(60_000);
    }
    isFailing = false;
    expect(await state.read('troubles')).toEqual({});
    expect(await state.read('troubles')).toEqual({});
    expect(reports).toEqual(['state.unavailable', 'recovered']);
  });
});

describe('a pass that keeps its targets', () => {
  const targets = Array.from({ length: 50 }, (_, index) => target(`branch-${index}`));

  /** The records and the last pass of a pass that kept every target. */
  async function savePassAt(state: State, listedAtMs: number): Promise<void> {
    const decisions = [{ kind: 'keep', reason: 'unchanged', result: 'kept', firstAtMs: NOW_MS }];
    await state.records();
    const fields = { verifiedAtMs: listedAtMs, decisions };
    await state.saveRecords(targets.map((each) => record({ target: each, ...fields })));
    await state.savePass(PASS, { listedAtMs, targets: new Set(targets.map(targetKey)) });
  }

  async function verifiedTimes(state: State): Promise<Set<number | null>> {
    const records = await state.records();
    expect(records.size).toBe(targets.length);
    return new Set([...records.values()].map(({ verifiedAtMs }) => verifiedAtMs));
  }

  function stored(): Map<unknown, unknown> {
    const rows = new Map<unknown, unknown>();
    behind((database) => {
      for (const { ns, key, value } of database.prepare('SELECT ns, key, value FROM kv').all()) {
        rows.set(`${String(ns)} ${String(key)}`, value);
      }
    });
    return rows;
  }

  it('writes one value, however many targets there are', async () => {
    const state = await opened();
    await savePassAt(state, NOW_MS);
    const before = stored();
    for (const at of [1, 2, 3]) {
      await savePassAt(state, NOW_MS + at);
      expect(await verifiedTimes(state)).toEqual(new Set([NOW_MS + at]));
    }
    const changed = [...stored()].filter(([key, value]) => before.get(key) !== value);
    expect(changed.map(([key]) => key)).toEqual(['directory-service last-pass']);
  });

  it('is read from a cache of an earlier version, as far as possible', async () => {
    const state = await opened();
    await savePassAt(state, NOW_MS);
    await closed(state);
    behind((database) => {
      const follows = `{"epoch":"e","pass":3,"verifies":true},"publishedAtMs":5`;
      database.exec(`UPDATE kv SET value = replace(value, '"follows":true', '"follows":${follows}')`);
      database.exec(`UPDATE kv SET value = replace(value, '"listedAtMs":${NOW_MS},', '')`);
      database.exec(`UPDATE kv SET value = replace(value, '"firstAtMs"', '"times":3,"firstAtMs"')`);
    });
    const next = await opened();
    expect(await verifiedTimes(next)).toEqual(new Set([NOW_MS]));
    expect(await next.lastPass()).toEqual(PASS);
    await savePassAt(next, NOW_MS + 1);
    expect(await verifiedTimes(next)).toEqual(new Set([NOW_MS + 1]));
  });
});

describe('the state cache next to its writer', () => {
  it('sees new records, and cannot write', async () => {
    const writer = await opened();
    await writer.saveRecords([record()]);
    const reader = await opened({ readOnly: true });
    expect((await reader.records()).size).toBe(1);
    const later = [record({ missingPasses: 1 }), record({ target: target('dev') })];
    await writer.saveRecords(later);
    expect(await reader.records()).toEqual(recordMap(...later));
    expect(await reader.saveRecords([record()])).toBe(false);
  });

  it('is empty if there is none, and makes none', async () => {
    const reader = await opened({ readOnly: true });
    expect(await reader.records()).toEqual(new Map());
    expect(await reader.lastPass()).toBeNull();
    expect(await readdir(folder)).toEqual([]);
  });

  it('ignores a damaged file, and does not change it', async () => {
    await writeFile(file, 'this is no database'.repeat(50));
    const reader = await opened({ readOnly: true });
    expect((await reader.records()).size).toBe(0);
    expect(resets).toEqual([expect.stringContaining('cannot be read')]);
    expect(await readdir(folder)).toEqual(['state.db']);
  });
});
