import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { expect, onTestFinished } from 'vitest';

import { API_KEY, API_TOKEN, FakeService } from './fake-service.ts';
import type { NetworkMachine } from './gluster.ts';
import { run, type Running } from './program.ts';

const NAMES = ['Accounting', 'Planning', 'Sales'];
const FILES = 20;

/** A service whose every state has a text of its own in all files of all repositories, and other names in each. */
export class ChangingService {
  readonly service: FakeService;
  private states = 0;
  /** The texts of all states that there were, by repository. */
  private readonly known = new Map<string, Set<string>>(NAMES.map((name) => [name, new Set()]));

  private constructor(service: FakeService) {
    this.service = service;
  }

  static async start(): Promise<ChangingService> {
    const service = await FakeService.start();
    onTestFinished(() => service.close());
    for (const name of NAMES) service.addRepository(name);
    const changing = new ChangingService(service);
    changing.change();
    return changing;
  }

  change(): void {
    this.states += 1;
    for (const repository of this.service.repositories) {
      for (let file = 0; file < FILES; file += 1) {
        const path = `d${file % 3}/f${file}.xlsx`;
        this.service.write(repository, 'main', path, `${this.states} of ${repository.fullName} in ${path}`);
      }
      this.service.remove(repository, 'main', `only/in-${this.states - 1}.xlsx`);
      this.service.write(repository, 'main', `only/in-${this.states}.xlsx`, 'this state');
    }
    const trees = this.service.expectedTrees();
    for (const [name, states] of this.known) {
      const files = [...(trees[`${name}/main`] ?? [])];
      states.add(textOf(files.map(([path, bytes]) => [path, bytes.toString()])));
    }
  }

  isState(name: string, text: string): boolean {
    return this.known.get(name)?.has(text) === true;
  }

  /** The text of the latest state. */
  latest(name: string): string {
    return [...(this.known.get(name) ?? [])].at(-1) ?? '';
  }

  /** The settings of an instance on a machine, as variables. */
  settingsOn(
    { folder }: NetworkMachine,
    more: Readonly<Record<string, string>> = {},
  ): Record<string, string> {
    const settings = {
      SERVICE_BASE_URL: this.service.baseUrl,
      SERVICE_API_KEY: API_KEY,
      SERVICE_API_TOKEN: API_TOKEN,
      GUARD_FILES: 'off',
      SCHEDULE: '0 0 1 1 *',
      PUBLISH: 'link',
      DIRECTORY: join(folder, 'mirrored'),
      ...more,
    };
    return Object.fromEntries(
      Object.entries(settings).map(([name, value]) => [`WORKBOOK_MIRROR_${name}`, value]),
    );
  }
}

function textOf(files: readonly (readonly [string, string])[]): string {
  return JSON.stringify([...files].sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Reads a tree as the manual says: resolves the link once, and then stays below what it leads to. */
export async function readTree({ folder }: NetworkMachine, name: string): Promise<string> {
  const root = await realpath(join(folder, 'mirrored/mirror', name, 'main'));
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files: [string, string][] = [];
  for (const path of paths) files.push([path.slice(root.length + 1), await readFile(path, 'utf8')]);
  return textOf(files);
}

/** Reads all trees on a machine without a pause until it is stopped; then gives what it saw that must not be. */
export function startReader(changing: ChangingService, machine: NetworkMachine) {
  const over = new AbortController();
  const faults = new Set<string>();
  let reads = 0;
  const reading = (async () => {
    while (!over.signal.aborted) {
      for (const name of NAMES) {
        const text = await readTree(machine, name).catch((error: unknown) => String(error));
        if (!changing.isState(name, text)) faults.add(`${machine.folder}: ${text.slice(0, 500)}`);
        reads += 1;
      }
      await sleep(1);
    }
  })();
  return {
    reads: () => reads,
    stop: async () => {
      over.abort();
      await reading;
      return [...faults];
    },
  };
}

/** Waits until an instance has made so many passes. */
export async function passes({ child, stdout }: Running, count: number): Promise<void> {
  while (stdout().split('"event":"pass.finished"').length <= count) {
    if (child.exitCode !== null) throw new Error(`it ended before pass ${count}:\n${stdout()}`);
    await sleep(10);
  }
}

/** Expects the latest state on machines, and nothing that differs from the manifests. */
export async function expectLatest(changing: ChangingService, ...machines: NetworkMachine[]): Promise<void> {
  for (const machine of machines) {
    for (const name of NAMES) expect(await readTree(machine, name)).toBe(changing.latest(name));
    const verified = await run(['verify'], changing.settingsOn(machine));
    expect({ ...verified, exitCode: verified.exitCode }).toMatchObject({ exitCode: 0 });
  }
}
