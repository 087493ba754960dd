import { rm, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { formatShard } from '../../src/config/plan-settings.ts';
import { owns } from '../../src/mirror/plan/selection.ts';
import type { FakeRepository, FakeService } from '../support/fake-service.ts';
import { LARGE_FILES, largeFile, MIB } from './large-files.ts';

/** The attacked work. */
export interface Scenario {
  readonly name: string;
  /** Settings in addition to the common ones, as variables without the prefix. */
  readonly settings: Readonly<Record<string, string>>;
  /** Puts the first state into the service. */
  readonly fill: (service: FakeService) => void;
  /** Whether nothing is mirrored yet. */
  readonly startsEmpty: boolean;
  /** Changes the service to its state during the attack. */
  readonly change: (service: FakeService) => void;
  /** A change of the mirror before the run. */
  readonly tamper: (directory: string) => Promise<void>;
  /** The target that moves, and its new path. */
  readonly moved: { readonly from: string; readonly to: string } | null;
  /** The target that goes to the history. */
  readonly retired: string | null;
  /** The target whose replaced tree the history keeps. */
  readonly kept: string | null;
  /** The shares of two instances in one directory, the attacked one first; null for a single instance. */
  readonly shards: { readonly attacked: string; readonly other: string } | null;
  /** Whether an earlier run (of the other instance, if there are two) was killed during its work, so that the recovery is attacked. */
  readonly isInterrupted: boolean;
  /** The attacked values of `publish`. */
  readonly modes: readonly Mode[];
  /** The free space, in blocks of 4 KiB and in inodes: from none to more than needed. */
  readonly room: { readonly blocks: number; readonly blockStep: number; readonly inodes: number };
}

/** A value of the setting `publish`. */
export type Mode = 'auto' | 'exchange' | 'rename' | 'link';

/** All values except `auto`, which is `exchange` if more than one file changes, and `rename` on file systems without it. */
const MODES: readonly Mode[] = ['exchange', 'rename', 'link'];

/** For scenarios that change a single file of a target. */
const ALL_MODES: readonly Mode[] = ['auto', ...MODES];

const QUIET: Omit<Scenario, 'name'> = {
  settings: {},
  fill: fillService,
  startsEmpty: false,
  change: () => {},
  tamper: async () => {},
  moved: null,
  retired: null,
  kept: null,
  shards: null,
  isInterrupted: false,
  modes: MODES,
  room: { blocks: 90, blockStep: 1, inodes: 45 },
};

/** Puts the common first state into a service. */
function fillService(service: FakeService): void {
  service.addRepository('Accounting', {
    'Budget.xlsx': 'budget 1',
    'Forecast.xlsx': 'forecast 1',
    'Q1/Ledger.xlsx': 'ledger 1',
    'Q1/Notes.txt': 'notes 1',
    Handbook: 'a file that becomes a folder',
    'Archive/Old.xlsx': 'a folder that becomes a file',
    'Names.xlsx': 'renamed but the same',
  });
  service.addRepository('github.com/org/plan.git', { 'Plan.xlsx': 'plan 1', 'Risks.xlsx': 'risks 1' });
  service.addRepository('Sales', { 'Leads.xlsx': 'leads 1', 'Deals.xlsx': 'deals 1' });
}

function find(service: FakeService, fullName: string): FakeRepository {
  const found = service.repositories.find((repository) => repository.fullName === fullName);
  if (found === undefined) throw new Error(`no repository ${fullName}`);
  return found;
}

function changeMuch(service: FakeService): void {
  const accounting = find(service, 'Accounting');
  service.write(accounting, 'main', 'Budget.xlsx', 'budget 2, which is longer');
  service.write(accounting, 'main', 'Q2/New.xlsx', 'new');
  service.remove(accounting, 'main', 'Q1/Ledger.xlsx');
  service.remove(accounting, 'main', 'Names.xlsx');
  service.write(accounting, 'main', 'Renamed.xlsx', 'renamed but the same');
  service.remove(accounting, 'main', 'Handbook');
  service.write(accounting, 'main', 'Handbook/Chapter.xlsx', 'a chapter');
  service.remove(accounting, 'main', 'Archive/Old.xlsx');
  service.write(accounting, 'main', 'Archive', 'a file now');
  const plan = find(service, 'github.com/org/plan.git');
  service.write(plan, 'main', 'Plan.xlsx', 'plan 2');
  service.write(plan, 'main', 'Risks.xlsx', 'risks 2');
  service.addRepository('Young', { 'First.xlsx': 'first' });
}

/** A change of one file in every target: replaced, added, removed. */
function changeOne(service: FakeService): void {
  service.write(find(service, 'Accounting'), 'main', 'Budget.xlsx', 'budget 2');
  service.write(find(service, 'Sales'), 'main', 'Orders.xlsx', 'orders 1');
  service.remove(find(service, 'github.com/org/plan.git'), 'main', 'Risks.xlsx');
}

/** Changes a published tree by hand, and makes its target due for a full check. */
async function damage(directory: string): Promise<void> {
  const tree = join(directory, 'mirror/Accounting/main');
  await writeFile(join(tree, 'Budget.xlsx'), 'scribbled over');
  await rm(join(tree, 'Q1/Ledger.xlsx'));
  await writeFile(join(tree, 'Q1/Stray.txt'), 'nobody knows it');
  const manifest = join(directory, 'manifests/Accounting/main.json');
  const text = await readFile(manifest, 'utf8');
  await writeFile(
    manifest,
    text.replace(/"(verified|compared)_at": "[^"]*"/g, '"$1_at": "2025-01-01T00:00:00.000Z"'),
  );
  for (const suffix of ['', '-wal', '-shm']) {
    await rm(join(directory, `.workbook-mirror/state.db${suffix}`), { force: true });
  }
}

/** With further repositories: one of many is retired without approval. */
function fillWithCompany(service: FakeService): void {
  fillService(service);
  for (const name of ['One', 'Two', 'Three']) service.addRepository(name, { 'Only.xlsx': name });
}

/** Changes of every kind. */
export const MIXED: Scenario = { ...QUIET, name: 'mixed', change: changeMuch };
const ONE_FILE: Scenario = { ...QUIET, name: 'one-file', change: changeOne, modes: ALL_MODES };
const FIRST: Scenario = { ...QUIET, name: 'first', startsEmpty: true };
const RETIRE: Scenario = {
  ...QUIET,
  name: 'retire',
  fill: fillWithCompany,
  change: (service) => service.removeRepository(find(service, 'Sales')),
  retired: 'Sales/main',
};
const MOVE: Scenario = {
  ...QUIET,
  name: 'move',
  change: (service) => {
    const accounting = find(service, 'Accounting');
    service.renameRepository(accounting, 'example.org/Finance');
    service.write(accounting, 'main', 'Budget.xlsx', 'budget 2');
    service.write(accounting, 'main', 'Forecast.xlsx', 'forecast 2');
  },
  moved: { from: 'Accounting/main', to: 'example.org/Finance/main' },
};
const KEEP: Scenario = {
  ...MIXED,
  name: 'keep',
  settings: { HISTORY_REPLACED: '9', GUARD_FILES: 'off' },
  kept: 'Accounting/main',
};
const REPAIR: Scenario = { ...QUIET, name: 'repair', tamper: damage };

const TEAMS = ['Team-1', 'Team-2', 'Team-3', 'Team-4', 'Team-5', 'Team-6'];

/** Many targets of a few files; several are published at the same time. */
function fillMany(service: FakeService): void {
  for (const name of TEAMS)
    service.addRepository(name, { 'Plan.xlsx': `plan of ${name}`, 'Notes/Today.txt': `notes of ${name}` });
}

/** Changes every target: two files in half of them, one in the others. */
function changeMany(service: FakeService): void {
  for (const [index, name] of TEAMS.entries()) {
    service.write(find(service, name), 'main', 'Plan.xlsx', `second plan of ${name}`);
    if (index % 2 === 0) service.write(find(service, name), 'main', 'New/Risks.xlsx', `risks of ${name}`);
  }
}

const MANY: Scenario = { ...QUIET, name: 'many', settings: { CONCURRENCY: '4' }, fill: fillMany };
const MANY_FIRST: Scenario = { ...MANY, name: 'many-first', startsEmpty: true };
const MANY_CHANGED: Scenario = { ...MANY, name: 'many-changed', change: changeMany, modes: ALL_MODES };

const SHARE = { index: 1, count: 2 };

/** A repository of the first of two instances. */
function findInShare(service: FakeService, fullName: string): FakeRepository {
  const found = find(service, fullName);
  if (!owns(SHARE, found.id)) throw new Error(`${fullName} belongs to the second instance`);
  return found;
}

/** Changes some targets of the first instance, and none of the second. */
function changeShare(service: FakeService): void {
  const two = findInShare(service, 'Team-1');
  service.write(two, 'main', 'Plan.xlsx', 'second plan');
  service.write(two, 'main', 'New/Risks.xlsx', 'risks');
  service.write(findInShare(service, 'Team-5'), 'main', 'Plan.xlsx', 'second plan');
}

const SHARES = { first: formatShard(SHARE), second: formatShard({ ...SHARE, index: 2 }) };

/** The other instance finishes or undoes the work of the attacked one. */
const SHARED: Scenario = {
  ...QUIET,
  name: 'shared',
  modes: ALL_MODES,
  fill: fillMany,
  change: (service) => {
    changeShare(service);
    service.renameRepository(findInShare(service, 'Team-6'), 'Moved-6');
  },
  moved: { from: 'Team-6/main', to: 'Moved-6/main' },
  shards: { attacked: SHARES.first, other: SHARES.second },
};

function fillLarge(service: FakeService): void {
  service.knobs.compression = 'stored';
  const large = service.addRepository('Large', { 'Notes.txt': 'notes 1' });
  for (const [path, sizeBytes] of Object.entries(LARGE_FILES))
    service.write(large, 'main', path, largeFile(path, 1, sizeBytes));
}

/** Changes some files that are unpacked while they arrive, and leaves one unchanged. */
function changeLarge(service: FakeService): void {
  const large = find(service, 'Large');
  const { 'Quarter.xlsx': _left, 'Extracts/January.csv': _removed, ...changed } = LARGE_FILES;
  for (const [path, sizeBytes] of Object.entries(changed))
    service.write(large, 'main', path, largeFile(path, 2, sizeBytes));
  service.remove(large, 'main', 'Extracts/January.csv');
  service.write(large, 'main', 'Extracts/May.csv', largeFile('May', 1, 15 * MIB));
}

const LARGE: Scenario = {
  ...QUIET,
  name: 'large',
  fill: fillLarge,
  // Their differences are the same for any archive.
  modes: ['auto'],
  room: { blocks: 40_000, blockStep: 199, inodes: 45 },
};
const LARGE_FIRST: Scenario = { ...LARGE, name: 'large-first', startsEmpty: true };
const LARGE_CHANGED: Scenario = { ...LARGE, name: 'large-changed', change: changeLarge };

function interrupted(scenario: Scenario): Scenario {
  return { ...scenario, name: `${scenario.name}-recovery`, isInterrupted: true };
}

/** An instance is attacked while it completes a publish of the other one. */
const SHARED_RECOVERY: Scenario = {
  ...interrupted(SHARED),
  change: changeShare,
  moved: null,
  shards: { attacked: SHARES.second, other: SHARES.first },
};

/** All scenarios. */
export const SCENARIOS: readonly Scenario[] = [
  FIRST,
  MIXED,
  ONE_FILE,
  RETIRE,
  MOVE,
  KEEP,
  REPAIR,
  MANY_FIRST,
  MANY_CHANGED,
  SHARED,
  LARGE_FIRST,
  LARGE_CHANGED,
  interrupted(FIRST),
  interrupted(MIXED),
  interrupted(ONE_FILE),
  interrupted(RETIRE),
  interrupted(MOVE),
  interrupted(KEEP),
  interrupted(MANY_CHANGED),
  SHARED_RECOVERY,
];

/** A scenario in a mode. */
export interface Cell {
  readonly scenario: Scenario;
  readonly mode: Mode;
  /** The beginning of its points' names. */
  readonly id: string;
}

/** All scenarios in their modes. */
export const CELLS: readonly Cell[] = SCENARIOS.flatMap((scenario) =>
  scenario.modes.map((mode) => ({ scenario, mode, id: `${scenario.name}/${mode}` })),
);
