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

function changeMuch(service: FakeService): void {
  const accounting = service.named('Accounting');
  service.write(accounting, 'main', 'Budget.xlsx', 'budget 2, which is longer');
  service.write(accounting, 'main', 'Q2/New.xlsx', 'new');
  service.remove(accounting, 'main', 'Q1/Ledger.xlsx');
  service.remove(accounting, 'main', 'Names.xlsx');
  service.write(accounting, 'main', 'Renamed.xlsx', 'renamed but the same');
  service.remove(accounting, 'main', 'Handbook');
  service.write(accounting, 'main', 'Handbook/Chapter.xlsx', 'a chapter');
  service.remove(accounting, 'main', 'Archive/Old.xlsx');
  service.write(accounting, 'main', 'Archive', 'a file now');
  const plan = service.named('github.com/org/plan.git');
  service.write(plan, 'main', 'Plan.xlsx', 'plan 2');
  service.write(plan, 'main', 'Risks.xlsx', 'risks 2');
  service.addRepository('Young', { 'First.xlsx': 'first' });
}

/** A change of one file in every target: replaced, added, removed. */
function changeOne(service: FakeService): void {
  service.write(service.named('Accounting'), 'main', 'Budget.xlsx', 'budget 2');
  service.write(service.named('Sales'), 'main', 'Orders.xlsx', 'orders 1');
  service.remove(service.named('github.com/org/plan.git'), 'main', 'Risks.xlsx');
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

const TEAMS = ['Team-1', 'Team-2', 'Team-3', 'Team-4', 'Team-5', 'Team-6'];

/** Many targets of a few files; several are published at the same time. */
function fillMany(service: FakeService): void {
  for (const name of TEAMS)
    service.addRepository(name, { 'Plan.xlsx': `plan of ${name}`, 'Notes/Today.txt': `notes of ${name}` });
}

/** Changes every target: two files in half of them, one in the others. */
function changeMany(service: FakeService): void {
  for (const [index, name] of TEAMS.entries()) {
    service.write(service.named(name), 'main', 'Plan.xlsx', `second plan of ${name}`);
    if (index % 2 === 0) service.write(service.named(name), 'main', 'New/Risks.xlsx', `risks of ${name}`);
  }
}

const SHARE = { index: 1, count: 2 };

/** A repository of the first of two instances. */
function namedInShare(service: FakeService, fullName: string): FakeRepository {
  const found = service.named(fullName);
  if (!owns(SHARE, found.id)) throw new Error(`${fullName} belongs to the second instance`);
  return found;
}

/** Changes some targets of the first instance, and none of the second. */
function changeShare(service: FakeService): void {
  const two = namedInShare(service, 'Team-1');
  service.write(two, 'main', 'Plan.xlsx', 'second plan');
  service.write(two, 'main', 'New/Risks.xlsx', 'risks');
  service.write(namedInShare(service, 'Team-5'), 'main', 'Plan.xlsx', 'second plan');
}

const SHARES = { first: formatShard(SHARE), second: formatShard({ ...SHARE, index: 2 }) };

function fillLarge(service: FakeService): void {
  service.knobs.compression = 'stored';
  const large = service.addRepository('Large', { 'Notes.txt': 'notes 1' });
  for (const [path, sizeBytes] of Object.entries(LARGE_FILES))
    service.write(large, 'main', path, largeFile(path, 1, sizeBytes));
}

/** Changes some files that are unpacked while they arrive, and leaves one unchanged. */
function changeLarge(service: FakeService): void {
  const large = service.named('Large');
  const { 'Quarter.xlsx': _left, 'Extracts/January.csv': _removed, ...changed } = LARGE_FILES;
  for (const [path, sizeBytes] of Object.entries(changed))
    service.write(large, 'main', path, largeFile(path, 2, sizeBytes));
  service.remove(large, 'main', 'Extracts/January.csv');
  service.write(large, 'main', 'Extracts/May.csv', largeFile('May', 1, 15 * MIB));
}

/** The fields of a scenario that differ from those of a quiet one. */
type Differing = Partial<Scenario> & Pick<Scenario, 'name'>;

const MIXED = { name: 'mixed', change: changeMuch };
const MANY = { settings: { CONCURRENCY: '4' }, fill: fillMany };
const LARGE = {
  fill: fillLarge,
  // Their differences are the same for any archive.
  modes: ['auto'],
  room: { blocks: 40_000, blockStep: 199, inodes: 45 },
} as const;
/** The other instance finishes or undoes the work of the attacked one. */
const SHARED = {
  name: 'shared',
  modes: ALL_MODES,
  fill: fillMany,
  change: (service: FakeService) => {
    changeShare(service);
    service.renameRepository(namedInShare(service, 'Team-6'), 'Moved-6');
  },
  moved: { from: 'Team-6/main', to: 'Moved-6/main' },
  shards: { attacked: SHARES.first, other: SHARES.second },
};

function interrupted(scenario: Differing): Differing {
  return { ...scenario, name: `${scenario.name}-recovery`, isInterrupted: true };
}

/** Scenarios of which the recovery after a kill is attacked, too. */
const RECOVERED: readonly Differing[] = [
  { name: 'first', startsEmpty: true },
  MIXED,
  { name: 'one-file', change: changeOne, modes: ALL_MODES },
  {
    name: 'retire',
    fill: fillWithCompany,
    change: (service) => service.removeRepository(service.named('Sales')),
    retired: 'Sales/main',
  },
  {
    name: 'move',
    change: (service) => {
      const accounting = service.named('Accounting');
      service.renameRepository(accounting, 'example.org/Finance');
      service.write(accounting, 'main', 'Budget.xlsx', 'budget 2');
      service.write(accounting, 'main', 'Forecast.xlsx', 'forecast 2');
    },
    moved: { from: 'Accounting/main', to: 'example.org/Finance/main' },
  },
  {
    ...MIXED,
    name: 'keep',
    settings: { HISTORY_REPLACED: '9', GUARD_FILES: 'off' },
    kept: 'Accounting/main',
  },
  { ...MANY, name: 'many-changed', change: changeMany, modes: ALL_MODES },
];

/** All scenarios. */
const SCENARIOS: readonly Differing[] = [
  ...RECOVERED,
  { name: 'repair', tamper: damage },
  { ...MANY, name: 'many-first', startsEmpty: true },
  SHARED,
  { ...LARGE, name: 'large-first', startsEmpty: true },
  { ...LARGE, name: 'large-changed', change: changeLarge },
  ...RECOVERED.map(interrupted),
  // An instance is attacked while it completes a publish of the other one.
  {
    ...interrupted(SHARED),
    change: changeShare,
    moved: null,
    shards: { attacked: SHARES.second, other: SHARES.first },
  },
];

/** A scenario in a mode. */
export interface Cell {
  readonly scenario: Scenario;
  readonly mode: Mode;
  /** The beginning of its points' names. */
  readonly id: string;
}

/** All scenarios in their modes. */
export const CELLS: readonly Cell[] = SCENARIOS.flatMap((each) => {
  const scenario = { ...QUIET, ...each };
  return scenario.modes.map((mode) => ({ scenario, mode, id: `${scenario.name}/${mode}` }));
});
