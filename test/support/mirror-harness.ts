import { initialLive } from '../../src/daemon/status/live.ts';
import { createMirrorStatus } from '../../src/daemon/status/mirror-status.ts';
import { reportShare } from '../../src/daemon/status/share-report.ts';
import { hash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { driftNotesIn } from '../../src/app/drift-notes.ts';
import { type Mirror, openMirror } from '../../src/app/open-mirror.ts';
import type { SettingsFor } from '../../src/config/schema.ts';
import { MirrorError } from '../../src/lib/errors/errors.ts';
import type { Trigger } from '../../src/mirror/pass/events.ts';
import type { DriftNote } from '../../src/mirror/plan/record.ts';
import type { EventName, MirrorEvent } from '../../src/app/events.ts';
import type { PullQueue } from '../../src/mirror/pass/queue.ts';
import { type PassReport, runPass } from '../../src/mirror/pass/pass.ts';
import type { Retries } from '../../src/mirror/plan/actions.ts';
import { directorySettings, mirrorSettings } from './settings.ts';
import { API_KEY, API_TOKEN, type FakeKnobs, type FakeService } from './fake-service.ts';
import { startFake } from './started-fake.ts';
import { stampsOf } from './stamps.ts';

/**
 * Settings as variables, without the prefix: `SERVICE_TIMEOUT`. An empty text takes one of the harness's away.
 * `RETIRE_AFTER_PASSES` is not a setting but the rule of that name of the harness's passes.
 */
export type HarnessSettings = Readonly<Record<string, string>>;

/** A manifest as it is on disk, as far as tests look at it. */
interface ManifestOnDisk {
  readonly verified_at: string;
  readonly published_at: string;
  readonly repository: { readonly id: string; readonly full_name: string };
  readonly skipped: readonly { readonly path: string }[];
  readonly files: readonly {
    readonly path: string;
    readonly sha256: string;
    readonly mtime: string;
    readonly workbook?: { readonly id: string; readonly version: string };
  }[];
}

/** Triggers with which a person has everything tried at once. */
const ASKED: ReadonlySet<Trigger> = new Set(['command', 'signal']);

/** How a pass may be run. */
export interface PassOptions {
  readonly trigger?: Trigger;
  /** Moves the clock of the pass, in milliseconds. */
  readonly aheadMs?: number;
  readonly signal?: AbortSignal;
  /** Targets that are tried although they wait; left out, all or none, as the trigger is. */
  readonly retries?: Retries;
  /** in place of the mirror's own queue. */
  readonly queue?: PullQueue;
  /** In place of parts of the mirror's own context. */
  readonly parts?: Partial<Pick<Mirror['context'], 'store' | 'state' | 'emit'>>;
}

const OFTEN_ENOUGH: HarnessSettings = {
  SERVICE_API_KEY: API_KEY,
  SERVICE_API_TOKEN: API_TOKEN,
  SERVICE_TIMEOUT: '20s',
  READER_GRACE: '0s',
  GUARD_TARGETS: 'off',
  GUARD_FILES: 'off',
};

/** The paths of all files and folders below a folder, also of what is in a folder that a link there leads to. */
async function namesBelow(root: string): Promise<{ readonly files: string[]; readonly folders: string[] }> {
  const [files, folders]: [string[], string[]] = [[], []];
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = relative(root, join(entry.parentPath, entry.name));
    const found = entry.isSymbolicLink() ? await stat(join(root, path)).catch(() => entry) : entry;
    (found.isDirectory() ? folders : files).push(path);
    if (!entry.isSymbolicLink() || !found.isDirectory()) continue;
    const below = await namesBelow(join(root, path));
    files.push(...below.files.map((name) => join(path, name)));
    folders.push(...below.folders.map((name) => join(path, name)));
  }
  return { files, folders };
}

/** A mirror on a directory of its own, on a service. */
export class MirrorHarness {
  readonly directory: string;
  readonly events: MirrorEvent[] = [];
  readonly #service: FakeService;
  #settings: HarnessSettings;
  #mirror: Mirror | null = null;

  private constructor(directory: string, service: FakeService, settings: HarnessSettings) {
    this.directory = directory;
    this.#service = service;
    this.#settings = settings;
  }

  /** @param shared the directory of another mirror, to be shared with it; left out for a directory of its own */
  static async open(
    service: FakeService,
    settings: HarnessSettings = {},
    shared?: string,
  ): Promise<MirrorHarness> {
    const directory = shared ?? (await mkdtemp(join(tmpdir(), 'workbook-mirror-test-')));
    const harness = new MirrorHarness(directory, service, settings);
    await harness.#start();
    return harness;
  }

  /** Closes the mirror and opens it again on the same directory, with further settings if given. */
  async restart(settings: HarnessSettings = {}): Promise<void> {
    this.#settings = { ...this.#settings, ...settings };
    await this.whileClosed(() => Promise.resolve());
  }

  /** Does something while the mirror is closed, and opens it again. */
  async whileClosed<T>(work: () => Promise<T>): Promise<T> {
    await this.stop();
    const result = await work();
    await this.#start();
    return result;
  }

  /** Closes the mirror, and leaves its directory. */
  async stop(): Promise<void> {
    await this.#mirror?.close();
    this.#mirror = null;
  }

  async close(): Promise<void> {
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** The opened mirror's context, for a test that calls a part of it by itself. */
  get context(): Mirror['context'] {
    return this.opened.context;
  }

  /** The rules that the opened mirror's passes follow. */
  get policy(): Mirror['policy'] {
    const { policy } = this.opened;
    const { RETIRE_AFTER_PASSES: passes } = this.#settings;
    return passes === undefined ? policy : { ...policy, retireAfterPasses: Number(passes) };
  }

  /** The settings of a command that needs nothing but the directory. */
  get diskSettings(): SettingsFor<'directory'> {
    return directorySettings(this.directory);
  }

  /** Runs a pass. @throws what ends the pass as a whole */
  async pass(options: PassOptions = {}): Promise<PassReport> {
    const { policy } = this;
    const { context, rememberInstallation } = this.opened;
    const { trigger = 'command', aheadMs = 0, signal = AbortSignal.timeout(250_000) } = options;
    const { queue = context.queue, parts = {}, retries = ASKED.has(trigger) ? 'all' : undefined } = options;
    const moved = { ...context, ...parts, queue, now: () => Date.now() + aheadMs };
    const report = await runPass(moved, policy, trigger, signal, retries);
    await rememberInstallation();
    return report;
  }

  /** Has the instance tell the others how its share stands, as after a pass. */
  async reportShare(): Promise<void> {
    const readMirror = createMirrorStatus(
      () => this.loaded,
      this.opened,
      () => initialLive(0),
    );
    await reportShare(readMirror, this.opened, null);
  }

  /** Runs a pass, after which the mirror must equal the service. */
  async exactPass(options: PassOptions = {}): Promise<PassReport> {
    const report = await this.pass(options);
    await this.expectExact();
    return report;
  }

  /** Runs a pass and gives what became of each target. */
  async results(options: PassOptions = {}) {
    return resultsOf(await this.pass(options));
  }

  /** Runs a pass that is to fail as a whole and gives its error. */
  async failure(options: PassOptions = {}): Promise<MirrorError> {
    try {
      await this.pass(options);
    } catch (error) {
      if (error instanceof MirrorError) return error;
      throw error;
    }
    throw new Error('the pass did not fail');
  }

  /** The events of a name so far. */
  eventsOf<Name extends EventName>(name: Name): Extract<MirrorEvent, { name: Name }>[] {
    return this.events.filter((event): event is Extract<MirrorEvent, { name: Name }> => event.name === name);
  }

  /** Everything below a folder of the directory: files with their bytes. */
  async files(folder: string): Promise<Map<string, Buffer>> {
    const root = join(this.directory, folder);
    const files = new Map<string, Buffer>();
    for (const path of (await namesBelow(root)).files) files.set(path, await readFile(join(root, path)));
    return files;
  }

  /** The published tree of a target. */
  tree(target: string): Promise<Map<string, Buffer>> {
    return this.files(join('mirror', target));
  }

  /** The targets that have a manifest. */
  async targets(): Promise<string[]> {
    const manifests = await this.files('manifests');
    return [...manifests.keys()].map((name) => name.replace(/\.json$/, '')).sort();
  }

  async manifest(target: string): Promise<ManifestOnDisk> {
    const text = await readFile(join(this.directory, 'manifests', `${target}.json`), 'utf8');
    return JSON.parse(text) as ManifestOnDisk;
  }

  /** The stamps of everything below `mirror/`, and of itself. */
  stamps(): Promise<Record<string, string>> {
    return stampsOf(join(this.directory, 'mirror'));
  }

  /** Expects the mirror to hold these trees and nothing else, and its manifests to say so. */
  async expectExact(trees = this.#service.expectedTrees()): Promise<void> {
    const expected: Record<string, string> = {};
    for (const [target, files] of Object.entries(trees)) {
      for (const [path, bytes] of files) expected[`${target}/${path}`] = digest(bytes);
    }
    const found: Record<string, string> = {};
    for (const [path, bytes] of await this.files('mirror')) found[path] = digest(bytes);
    expect(found).toStrictEqual(expected);
    expect(await this.targets()).toStrictEqual(Object.keys(trees).sort());
    for (const [target, files] of Object.entries(trees)) {
      const listed = (await this.manifest(target)).files.map(({ path, sha256 }) => [path, sha256]);
      expect(Object.fromEntries(listed)).toStrictEqual(
        Object.fromEntries([...files].map(([path, bytes]) => [path, hash('sha256', bytes)])),
      );
    }
    const { folders } = await namesBelow(join(this.directory, 'mirror'));
    expect(folders.sort()).toStrictEqual(foldersOf(trees));
    expect(await readdir(join(this.directory, '.workbook-mirror', 'staging'))).toStrictEqual([]);
  }

  /** Everything that the mirror has said so far and keeps on disk beside the trees, as one text. */
  async everythingSaid(): Promise<string> {
    const manifests = [...(await this.files('manifests')).values()].map(String);
    return [JSON.stringify([this.events, await this.context.state.records()]), ...manifests].join('\n');
  }

  /** The opened mirror. */
  get opened(): Mirror {
    if (this.#mirror === null) throw new Error('the mirror is not open');
    return this.#mirror;
  }

  /** Its settings. */
  get loaded(): SettingsFor<'service' | 'directory'> {
    const own = { SERVICE_BASE_URL: this.#service.baseUrl, DIRECTORY: this.directory };
    const given = Object.entries({ ...OFTEN_ENOUGH, ...own, ...this.#settings }).filter(
      ([name, value]) => value !== '' && name !== 'RETIRE_AFTER_PASSES',
    );
    return mirrorSettings(Object.fromEntries(given));
  }

  async #start(): Promise<void> {
    const take = (event: MirrorEvent): number => this.events.push(event);
    this.#mirror = await openMirror(this.loaded, take, { reportFirstAccept: true });
  }
}

/** A service with a mirror on it, both closed when the test is over. */
export async function startPair(knobs: Partial<FakeKnobs> = {}, settings: HarnessSettings = {}) {
  const service = await startFake(knobs);
  const mirror = await MirrorHarness.open(service, settings);
  onTestFinished(() => mirror.close());
  return { service, mirror };
}

/** A pair whose mirror holds one repository. */
export async function startMirrored(
  name: string,
  files: Readonly<Record<string, string>>,
  settings: HarnessSettings = {},
  knobs: Partial<FakeKnobs> = {},
) {
  const { service, mirror } = await startPair(knobs, settings);
  const repository = service.addRepository(name, files);
  await mirror.pass();
  return { service, mirror, repository };
}

/** The notes of trees that differ from their manifests, by path. */
export async function driftNotesOf({ context }: MirrorHarness): Promise<Map<string, DriftNote>> {
  const { published } = await context.store.inventory.read();
  return driftNotesIn(await context.state.records(), published);
}

/** The result of each target, by path. */
export function resultsOf(report: PassReport) {
  return Object.fromEntries(
    report.results.map(({ action, outcome }) => [
      action.path,
      {
        action: action.kind,
        reason: action.reason,
        outcome: outcome.kind,
        ...(outcome.kind === 'failed' ? { code: outcome.error.code, errorAction: outcome.error.action } : {}),
      },
    ]),
  );
}

/** Texts as files, for a tree that is expected. */
export function treeOf(files: Readonly<Record<string, string>>): ReadonlyMap<string, Buffer> {
  return new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
}

function foldersOf(trees: Readonly<Record<string, ReadonlyMap<string, Buffer>>>): string[] {
  const folders = new Set<string>();
  for (const [target, files] of Object.entries(trees))
    for (const path of ['any', ...files.keys()])
      for (let at = dirname(`${target}/${path}`); at !== '.'; at = dirname(at)) folders.add(at);
  return [...folders].sort();
}

/** Short bytes as they are, so that a difference can be read; long ones as a digest. */
function digest(bytes: Buffer): string {
  return bytes.length <= 60 ? bytes.toString('latin1') : `${bytes.length} bytes ${hash('sha256', bytes)}`;
}
