import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import { expect, it, onTestFinished } from 'vitest';

import { systemCode } from '../../src/lib/errors/disk-errors.ts';
import { EXIT_CODES } from '../../src/lib/errors/errors.ts';
import type { FakeRepository, FakeService } from '../support/fake-service.ts';
import { startFake } from '../support/started-fake.ts';
import { hasGluster, type NetworkMachine, startVolume } from '../support/gluster.ts';
import { run, type Running, start, variablesOf } from '../support/program.ts';
import { textsIn } from '../support/published.ts';
import { say } from '../support/sweep.ts';
import { temporaryFolder } from '../support/temporary.ts';

/**
 * Three to five instances share one directory on two machines, while a service changes and instances, mounts and cables are cut off.
 * `MINUTES=10 REPOSITORIES=1000` makes a long run; the default is one round.
 */
const LASTS_MS = Number(process.env['MINUTES'] ?? 0) * 60_000;
const REPOSITORIES = Number(process.env['REPOSITORIES'] ?? 40);
const SETTLE_MS = 60_000 + REPOSITORIES * 300;

/** Seconds of silence after which the server gives up a machine and its locks, and a machine the server. */
const GIVEN_UP = { 'server.tcp-user-timeout': '5', 'network.ping-timeout': '5' };

/** A machine: a view of the directory through a mount that may be lost. */
interface Place {
  readonly directory: string;
  readonly machine: NetworkMachine | null;
  /** How often the mount was lost or came back: reads across such a moment do not count. */
  changes: number;
}

/** A service whose repositories change from state to state. Every file contains its state, and one has it in its name. */
function booksOf(service: FakeService) {
  const states = new Map<string, number>();
  const repositories = Array.from({ length: REPOSITORIES }, (_, at) =>
    service.addRepository(`team-${at % 7}/Book ${at}`),
  );
  const change = (repository: FakeRepository): void => {
    const { fullName } = repository;
    const state = (states.get(fullName) ?? 0) + 1;
    service.remove(repository, 'main', `only/in-${state - 1}.xlsx`);
    for (const [path, text] of Object.entries(filesOf(fullName, state)))
      service.write(repository, 'main', path, text);
    states.set(fullName, state);
  };
  for (const repository of repositories) change(repository);
  const changeOne = (): void => {
    const repository = repositories[Math.floor(Math.random() * REPOSITORIES)];
    if (repository !== undefined) change(repository);
  };
  return { service, states, changeOne };
}

type Books = ReturnType<typeof booksOf>;

function filesOf(name: string, state: number): Record<string, string> {
  const paths = ['d0/f0.xlsx', 'd1/f1.xlsx', 'd0/f2.txt', 'd1/f3.txt', `only/in-${state}.xlsx`];
  return Object.fromEntries(paths.map((path) => [path, `${state} of ${name} in ${path}`]));
}

/** Reads a tree as in the manual: resolves its link once, and stays below it. @returns its state @throws Error for a mixture */
async function readState({ directory }: Place, name: string): Promise<number> {
  const files = await textsIn(await realpath(join(directory, 'mirror', name, 'main')));
  const state = Number.parseInt(Object.values(files)[0] ?? '', 10);
  if (!isDeepStrictEqual(files, filesOf(name, state))) throw new Error(`a mixture: ${JSON.stringify(files)}`);
  return state;
}

/** Reads all trees of a place in a loop. @returns ends the loop, and returns the number of whole trees and the faults */
function startReader(books: Books, place: Place): () => Promise<{ reads: number; faults: string[] }> {
  const over = new AbortController();
  const lastSeen = new Map<string, number>();
  const faults: string[] = [];
  let reads = 0;
  const readOne = async (name: string): Promise<void> => {
    const { changes } = place;
    const seen = lastSeen.get(name);
    try {
      const state = await readState(place, name);
      if (state < (seen ?? 0)) throw new Error(`state ${state} after ${seen}`);
      lastSeen.set(name, state);
      reads += 1;
    } catch (error) {
      const isNotThereYet = systemCode(error) === 'ENOENT' && seen === undefined;
      if (!isNotThereYet && place.changes === changes) faults.push(`${name}: ${String(error)}`);
    }
  };
  const names = [...books.states.keys()];
  const reading = (async () => {
    for (let at = 0; !over.signal.aborted; at = (at + 1) % names.length) {
      // After an odd number of changes, the mount is away.
      if (place.changes % 2 === 0) await readOne(names[at] ?? '');
      await sleep(1);
    }
  })();
  return async () => {
    over.abort();
    await reading;
    return { reads, faults };
  };
}

function settingsOf({ service }: Books, { directory }: Place, shard: string): Record<string, string> {
  return variablesOf({
    ...service.settingsFor(directory),
    ...(shard === '' ? {} : { SHARD: shard }),
    SCHEDULE: '* * * * * *',
    // A state must come in one answer.
    CONTENT: 'all',
    PUBLISH: 'link',
    DRIFT: 'off',
    GUARD_FILES: 'off',
    READER_GRACE: '20s',
  });
}

type Fleet = ReturnType<typeof startFleet>;

/** The instances, with a supervisor that restarts them. */
function startFleet(books: Books, places: readonly [Place, Place]) {
  const members = new Map<number, { running: Running; place: Place; shard: string }>();
  const started: Running[] = [];
  const launch = (index: number, shard: string, at = index): void => {
    const place = places[at % 2] ?? places[0];
    const running = start(['run'], settingsOf(books, place, shard));
    started.push(running);
    members.set(index, { running, place, shard });
  };
  const end = async (index: number, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    const { running } = members.get(index) ?? {};
    running?.child.kill(signal);
    await running?.ended;
  };
  for (const index of [1, 2, 3]) launch(index, `${index}/3`);
  return {
    /** Restarts all ended instances. */
    supervise: () => {
      for (const [index, { running, shard }] of members)
        if (running.child.exitCode !== null || running.child.signalCode !== null) launch(index, shard);
    },
    /** Kills one, and starts it on a random machine. */
    kill: async () => {
      const all = [...members];
      const [index, member] = all[Math.floor(Math.random() * all.length)] ?? [];
      if (index === undefined || member === undefined) return;
      await end(index, 'SIGKILL');
      launch(index, member.shard, Math.random() < 0.5 ? 0 : 1);
    },
    /** Changes a mount without its instances noticing; on request, they die with it. */
    lose: async (at: 0 | 1, doing: (machine: NetworkMachine) => Promise<void>, kills: boolean) => {
      const place = places[at];
      if (place.machine === null) return;
      place.changes += 1;
      if (kills) {
        place.machine.kill();
        for (const [index, member] of members) if (member.place === place) await end(index, 'SIGKILL');
      }
      await doing(place.machine);
      place.changes += 1;
    },
    /** Restarts all with another count, one at a time: instances with the new count wait for those with the old one. */
    changeCount: async (to: 3 | 5) => {
      for (const index of [4, 5]) {
        await end(index);
        members.delete(index);
      }
      for (let index = 1; index <= to; index += 1) {
        await end(index);
        launch(index, `${index}/${to}`);
      }
    },
    /** The output of instances that reported a defect, or ended with one. */
    defects: () =>
      started
        .filter(
          ({ child, stdout }) => child.exitCode === EXIT_CODES.defect || /internal\.defect/.test(stdout()),
        )
        .map(({ stdout, stderr }) => (stdout() + stderr()).slice(-3000)),
    stop: async () => {
      for (const index of members.keys()) await end(index);
    },
  };
}

async function openPlaces(isNetwork: boolean): Promise<[Place, Place]> {
  const place = (directory: string, machine: NetworkMachine | null = null): Place => ({
    directory,
    machine,
    changes: 0,
  });
  if (isNetwork) {
    const [one, other] = await startVolume(GIVEN_UP);
    return [place(join(one.folder, 'mirrored'), one), place(join(other.folder, 'mirrored'), other)];
  }
  const directory = join(await temporaryFolder(), 'mirrored');
  await mkdir(directory);
  return [place(directory), place(directory)];
}

const remount = (machine: NetworkMachine): Promise<void> => machine.remount();

/** Cuts the cable long enough for the server to often give the machine's locks to others. */
async function cutCable(machine: NetworkMachine): Promise<void> {
  machine.setCable('down');
  await sleep(2000 + Math.random() * 7000);
  machine.setCable('up');
  await machine.answers();
}

/** Waits until both places equal the service. */
async function settle(books: Books, places: readonly Place[], fleet: Fleet): Promise<void> {
  const untilMs = Date.now() + SETTLE_MS;
  for (const place of places)
    for (const [name, expected] of books.states)
      for (;;) {
        const state = await readState(place, name).catch(String);
        if (state === expected) break;
        if (Date.now() > untilMs) throw new Error(`${name} is ${state}, not ${expected}`);
        fleet.supervise();
        await sleep(100);
      }
}

const TITLE = hasGluster ? '' : ' (skipped: needs root, namespaces, FUSE and glusterfs-server)';

for (const { on, isNetwork } of [
  { on: 'in one folder', isNetwork: false },
  { on: `on two machines with a GlusterFS volume${TITLE}`, isNetwork: true },
])
  it.skipIf(isNetwork && !hasGluster)(
    `instances that are killed and counted again mirror every state whole and in order, ${on}`,
    { timeout: 600_000 + LASTS_MS * 2 },
    async () => {
      const places = await openPlaces(isNetwork);
      const books = booksOf(await startFake({ pageSize: 1000 }));
      const fleet = startFleet(books, places);
      await settle(books, places, fleet);
      const readers = places.map((place) => startReader(books, place));
      const changing = setInterval(() => {
        for (let count = 0; count < REPOSITORIES / 40; count += 1) books.changeOne();
        books.service.takeRequests();
      }, 300);
      onTestFinished(() => clearInterval(changing));
      const endsAtMs = Date.now() + LASTS_MS;
      do {
        const steps = [
          () => fleet.kill(),
          () => fleet.lose(0, remount, true),
          () => fleet.lose(1, cutCable, false),
          () => fleet.changeCount(5),
          () => fleet.kill(),
          () => fleet.lose(1, remount, true),
          () => fleet.lose(0, cutCable, false),
          () => fleet.changeCount(3),
        ];
        for (const step of steps) {
          await step();
          await sleep(Math.random() * (500 + REPOSITORIES * 5));
          fleet.supervise();
        }
      } while (Date.now() < endsAtMs);
      clearInterval(changing);
      await settle(books, places, fleet);
      // Contents that were newer than their list are pulled once more.
      do await sleep(3000);
      while (books.service.takeDownloads().length > 0);
      await fleet.changeCount(5);
      await sleep(3000);
      await fleet.changeCount(3);
      await settle(books, places, fleet);
      await fleet.stop();
      expect(books.service.takeDownloads(), 'a change of the count alone downloads nothing').toEqual([]);
      for (const end of readers) {
        const { reads, faults } = await end();
        say(`several instances ${on}: ${reads} whole trees read`);
        expect(faults).toEqual([]);
        expect(reads).toBeGreaterThan(0);
      }
      for (const place of places) {
        const verified = await run(['verify'], settingsOf(books, place, ''));
        expect(verified, verified.stdout + verified.stderr).toMatchObject({ exitCode: 0 });
      }
      expect(fleet.defects()).toEqual([]);
    },
  );
