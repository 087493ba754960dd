import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import type { Bench } from '../bench.ts';
import { compare, type Contender } from '../compare.ts';
import { type BenchFile, dataSet, type DataSetSpec } from '../data-set.ts';
import { measureFlushed, peer, script } from '../peers.ts';
import { pullerOf } from '../pull.ts';
import type { Scenario } from '../scenario.ts';
import { writeTree } from '../tree.ts';
import type { Table } from '../table.ts';
import type { Tool } from '../tools.ts';

/** Some files of a large tree change: the whole pull and its publishing, beside what publishes a local tree. */
export const publish: Scenario = {
  name: 'publish',
  about: 'few and many files of a large tree change',
  run: async function* run(bench) {
    const { isQuick } = bench.options;
    const large = treeOf('10,000 files', isQuick ? 500 : 10_000, 40 * 1024);
    yield* changesOf(bench, large, isQuick ? [1, 100] : [1, 10, 1000]);
    if (!isQuick) yield* changesOf(bench, treeOf('100,000 files', 100_000, 4 * 1024), [1]);
  },
};

/** In Git, so that the whole archive is downloaded. */
function treeOf(name: string, filesEach: number, mostBytes: number): DataSetSpec {
  return dataSet(name, { filesEach, mostBytes, packings: ['wrapped'], kind: 'git' });
}

async function* changesOf(bench: Bench, spec: DataSetSpec, counts: readonly number[]): AsyncGenerator<Table> {
  const service = await bench.serve(spec);
  const files = service.repositories[0]?.files ?? [];
  const tree = await bench.treeOf(spec, 0);
  let changed: readonly BenchFile[] = [];
  const contenders = [
    await pullerOf(bench, 'workbook-mirror: download, unpack, compare, publish', service, () => changed),
    await scriptOf(bench, spec),
    ...(await publishers(bench, tree, () => changed)),
  ];
  for (const count of counts) {
    const rows = await compare(bench, contenders, async () => {
      changed = files.filter((_, index) => index % Math.floor(files.length / count) === 0).slice(0, count);
      await service.change(
        0,
        changed.map(({ path }) => path),
      );
      await writeTree(tree, changed);
    });
    yield {
      title: `Publish ${count} changed of ${files.length} files`,
      rows,
      base: rows[0]?.contender ?? '',
      notes: [
        'Those of a "local tree" are given it unpacked on the same disk: they neither download nor unpack. All are flushed.',
        'The two that make a tree of links or copies do not remove the tree before; rclone changes it in place, not at once.',
      ],
    };
  }
}

async function scriptOf(bench: Bench, spec: DataSetSpec): Promise<Contender> {
  const service = await bench.serve(spec);
  const directory = await bench.place('script');
  return {
    name: 'script: download, unpack, swap',
    needs: ['bash', 'curl', 'jq', 'bsdtar'],
    run: () => script(service, directory, 'stream', true),
    after: () => bench.empty(join(directory, 'new')),
  };
}

/** What publishes a tree that lies unpacked on the same disk; each begins with what its last run left. */
async function publishers(
  bench: Bench,
  tree: string,
  changed: () => readonly BenchFile[],
): Promise<Contender[]> {
  const ways: ReadonlyArray<readonly [name: string, way: string, needs: readonly Tool[]]> = [
    ['local tree: cp -al, replace what changed, swap', 'link', ['bash']],
    ['local tree: cp -a of everything, swap', 'copy', ['bash']],
    ['local tree: rsync --link-dest, swap', 'rsync', ['bash', 'rsync']],
    ['local tree: rclone sync in place', 'rclone', ['bash', 'rclone']],
  ];
  return Promise.all(
    ways.map(async ([name, way, needs]) => {
      const directory = await bench.place(way);
      await mkdir(directory);
      await cp(tree, join(directory, 'published'), { recursive: true, preserveTimestamps: true });
      return {
        name,
        needs,
        run: () =>
          measureFlushed(
            {
              program: 'bash',
              args: [peer('publish.sh'), way, tree, directory],
              input: changed()
                .map(({ path }) => `${path}\0`)
                .join(''),
            },
            directory,
          ),
      };
    }),
  );
}
