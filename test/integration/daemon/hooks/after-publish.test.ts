import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { AfterPublish } from '../../../../src/daemon/hooks/after-publish.ts';
import type { HookTree } from '../../../../src/mirror/state/state.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import type { Manifest, ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { manifestFile, published, repository } from '../../../support/builders.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

interface Tree {
  readonly id: string;
  readonly publishedAtMs: number;
}

function manifestOf({ id, publishedAtMs }: Tree, files: readonly ManifestFile[]): Manifest {
  return { ...published(repository({ id, fullName: id }), { publishedAtMs }), files } as unknown as Manifest;
}

/** A mirror with only its manifests, and a command that is a shell script. */
async function startStand(script: string) {
  const folder = await temporaryFolder();
  const trees = new Map<string, Tree>();
  const stored = new Map<string, HookTree>();
  const events: MirrorEvent[] = [];
  const parts = { script, isStateThere: true, isDiskThere: true, asked: 0 };
  const open = (): AfterPublish =>
    new AfterPublish({
      layout: layoutOf(folder),
      command: () => {
        parts.asked += 1;
        return parts.script === '' ? null : { words: ['/bin/sh', '-c', parts.script], timeoutMs: 20_000 };
      },
      inventory: async () => {
        if (!parts.isDiskThere) throw new MirrorError('disk.failed', 'The disk is away.');
        const found = [...trees].map(([path, { id, publishedAtMs }]) =>
          published(repository({ id, fullName: id }), { path, publishedAtMs }),
        );
        return { published: found, others: [], unreadable: [] };
      },
      recall: async () => (parts.isStateThere ? new Map(stored) : null),
      remember: async (target, tree) => {
        if (tree === null) stored.delete(target);
        else stored.set(target, tree);
      },
      emit: (event) => events.push(event),
    });
  const stand = {
    folder,
    trees,
    stored,
    parts,
    queue: open(),
    /** A new process with the same state. */
    restart: async (): Promise<void> => {
      await stand.queue.close(0);
      stand.queue = open();
    },
    /** Publishes a state with one changed file, as a pull does. */
    publish: (target: string, publishedAtMs: number, path: string): void => {
      const before = trees.get(target);
      const now = { id: target, publishedAtMs };
      trees.set(target, now);
      const previous = before === undefined ? null : manifestOf(before, [manifestFile(path)]);
      const manifest = manifestOf(now, [manifestFile(path, { sha256: 'new' })]);
      stand.queue.onPublished({ target, previous, manifest });
    },
    /** The output of the command so far. */
    ran: async (): Promise<string[]> => {
      const text = await readFile(join(folder, 'ran'), 'utf8').catch(() => '');
      return text.split('\n').filter((line) => line !== '');
    },
    /** Looks at all trees, as after a pass. @returns how many runs are left to do */
    look: (): Promise<number> => {
      stand.queue.lookAtAll();
      return stand.queue.settled();
    },
    failures: () => events.flatMap((event) => (event.name === 'hook.failed' ? [event.message] : [])),
  };
  onTestFinished(() => stand.queue.close(0));
  return stand;
}

const LOG =
  'echo "$MIRROR_EVENT $MIRROR_TARGET $MIRROR_CHANGES $(cat | tr -d \'\\n\')" >> "$MIRROR_DIRECTORY/ran"';

const changed = (path: string): string => `{"change":"changed","path":"${path}"}`;
const added = (path: string): string => `{"change":"added","path":"${path}"}`;

describe('the command after publishing', () => {
  it('runs once for each new state, with the files that changed, and not again', async () => {
    const stand = await startStand(LOG);
    stand.publish('A/main', 1, 'a');
    expect(await stand.queue.settled()).toBe(0);
    stand.publish('A/main', 2, 'b');
    expect(await stand.look()).toBe(0);
    await stand.restart();
    expect(await stand.look()).toBe(0);
    expect(await stand.ran()).toEqual([
      `published A/main known ${added('a')}`,
      `published A/main known ${changed('b')}`,
    ]);
  });

  it('never overlaps, and runs once, without a list of files, for changes during a run', async () => {
    const busy = 'touch busy; while [ ! -e go ]; do sleep 0.02; done; sleep 0.1; rm busy';
    const stand = await startStand(
      `cd "$MIRROR_DIRECTORY"; test -e busy && echo overlap >> ran; ${busy}; ${LOG}`,
    );
    stand.publish('A/main', 1, 'a');
    await expect.poll(() => readdir(stand.folder)).toContain('busy');
    for (let at = 2; at < 6; at += 1) stand.publish('A/main', at, `file-${at}`);
    stand.publish('B/main', 1, 'b');
    await writeFile(join(stand.folder, 'go'), '');
    expect(await stand.queue.settled()).toBe(0);
    expect(await stand.ran()).toEqual([
      `published A/main known ${added('a')}`,
      'published A/main unknown ',
      `published B/main known ${added('b')}`,
    ]);
  });

  it('keeps a bounded list of changes for all targets that wait together', async () => {
    const log = 'cat > /dev/null; echo "$MIRROR_TARGET $MIRROR_CHANGES" >> "$MIRROR_DIRECTORY/ran"';
    const stand = await startStand(log);
    const files = Array.from({ length: 120_000 }, (_, index) => manifestFile(`file-${index}`));
    const publish = (target: string, list: readonly ManifestFile[]): void => {
      const tree = { id: target, publishedAtMs: 1 };
      stand.trees.set(target, tree);
      stand.queue.onPublished({ target, previous: null, manifest: manifestOf(tree, list) });
    };
    publish('A/main', files);
    publish('B/main', files);
    publish('C/main', files.slice(0, 10));
    expect(await stand.queue.settled()).toBe(0);
    // The lists of finished runs are not kept.
    publish('D/main', files);
    expect(await stand.queue.settled()).toBe(0);
    const runs = ['A/main known', 'B/main unknown', 'C/main known', 'D/main known'];
    expect(await stand.ran()).toEqual(runs);
  });

  it('receives that a target left, even if no run for it had succeeded', async () => {
    const stand = await startStand(`${LOG}; exit 1`);
    stand.publish('A/main', 1, 'a');
    expect(await stand.queue.settled()).toBe(1);
    stand.trees.clear();
    stand.parts.script = LOG;
    await stand.restart();
    expect(await stand.look()).toBe(0);
    expect(await stand.ran()).toEqual([`published A/main known ${added('a')}`, 'retired A/main unknown ']);
    expect(stand.stored.size).toBe(0);
  });

  it('receives that targets left or moved before it ran for them, if the state does not know what it received', async () => {
    const stand = await startStand(`while [ ! -e "$MIRROR_DIRECTORY/go" ]; do sleep 0.02; done; ${LOG}`);
    for (const id of ['a', 'b', 'c']) stand.trees.set(`${id}/main`, { id, publishedAtMs: 1 });
    stand.queue.lookAtAll();
    await expect.poll(() => stand.stored.size).toBe(3);
    stand.trees.delete('b/main');
    stand.trees.delete('c/main');
    stand.trees.set('d/main', { id: 'c', publishedAtMs: 1 });
    stand.queue.lookAtAll();
    await writeFile(join(stand.folder, 'go'), '');
    expect(await stand.queue.settled()).toBe(0);
    expect(await stand.ran()).toEqual([
      'published a/main unknown ',
      'moved d/main unknown ',
      'retired b/main unknown ',
    ]);
    expect([...stand.stored.keys()]).toEqual(['a/main', 'd/main']);
  });

  it('that fails is reported with its last line, does not block others, and is due again', async () => {
    const stand = await startStand(
      `cat > /dev/null; case $MIRROR_TARGET in A/*) echo "no room" >&2; exit 7;; esac; ${LOG}`,
    );
    stand.publish('A/main', 1, 'a');
    stand.publish('B/main', 1, 'b');
    expect(await stand.queue.settled()).toBe(1);
    expect(stand.failures()).toEqual(['It ended with exit code 7: no room']);
    expect(await stand.ran()).toEqual(['published B/main known ']);
    stand.parts.script = LOG;
    await stand.restart();
    expect(await stand.look()).toBe(0);
    expect((await stand.ran()).at(-1)).toBe('published A/main unknown ');
  });

  it('that fails runs again at its time, and waits for longer after each failure', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const stand = await startStand(`${LOG}; exit 1`);
    stand.publish('A/main', 1, 'a');
    expect(await stand.queue.settled()).toBe(1);
    // The second run is due after at most 30 s, and the third one 30 to 60 s later.
    for (const [waitMs, runs] of [
      [30_000, 2],
      [29_000, 2],
      [31_000, 3],
    ] as const) {
      await vi.advanceTimersByTimeAsync(waitMs);
      await stand.queue.settled();
      expect(await stand.ran()).toHaveLength(runs);
    }
  });

  it('runs without a pause after a failure if the settings have another one', async () => {
    const stand = await startStand('exit 1');
    stand.publish('A/main', 1, 'a');
    expect(await stand.queue.settled()).toBe(1);
    expect(await stand.look()).toBe(1);
    expect(stand.failures()).toHaveLength(1);
    stand.parts.script = LOG;
    expect(await stand.look()).toBe(0);
    expect(await stand.ran()).toEqual([`published A/main known ${added('a')}`]);
  });

  it.each([
    ['may finish in the shutdown time of the program', 'sleep 0.3', 10_000, [1]],
    ['is stopped after it, which is no failure', 'exec sleep 60', 50, [0]],
  ])('%s', async (_title, rest, timeoutMs, stored) => {
    const stand = await startStand(`${LOG}; ${rest}`);
    stand.publish('A/main', 1, 'a');
    await expect.poll(() => stand.ran()).toHaveLength(1);
    await stand.queue.close(timeoutMs);
    expect(stand.failures()).toEqual([]);
    expect([...stand.stored.values()].map(({ publishedAtMs }) => publishedAtMs)).toEqual(stored);
  });

  it('runs for publishes of this process while the state cannot be read, and for the rest later', async () => {
    const stand = await startStand(LOG);
    stand.parts.isStateThere = false;
    stand.trees.set('A/main', { id: 'a', publishedAtMs: 1 });
    stand.queue.lookAtAll();
    stand.publish('B/main', 1, 'b');
    expect(await stand.queue.settled()).toBe(1);
    expect(await stand.ran()).toEqual([`published B/main known ${added('b')}`]);
    stand.parts.isStateThere = true;
    expect(await stand.look()).toBe(0);
    expect((await stand.ran()).at(-1)).toBe('published A/main unknown ');
  });

  it('reports an unreadable disk, and continues without it', async () => {
    const stand = await startStand(LOG);
    stand.trees.set('A/main', { id: 'a', publishedAtMs: 1 });
    stand.parts.isDiskThere = false;
    expect(await stand.look()).toBe(1);
    expect(stand.failures()).toEqual(['The disk is away.']);
    stand.parts.isDiskThere = true;
    expect(await stand.look()).toBe(0);
  });

  it('drops due runs when the settings no longer have a command', async () => {
    const stand = await startStand('exit 1');
    stand.publish('A/main', 1, 'a');
    expect(await stand.queue.settled()).toBe(1);
    stand.parts.script = '';
    // The time for another try is over: without a command, it must not be awaited again and again.
    vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 3_600_000);
    expect(await stand.look()).toBe(0);
    const asked = stand.parts.asked;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(stand.parts.asked).toBe(asked);
  });
});
