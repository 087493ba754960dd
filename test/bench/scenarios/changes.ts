import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { type Bench, empty, writeTree } from '../bench.ts';
import { type BenchFile, dataSet, type DataSet } from '../data.ts';
import { compare, type Contender, measureFlushed, type Tool } from '../measure.ts';
import { bash, countedBytes, peer, pullerOf } from '../peers.ts';
import type { BenchService } from '../service.ts';
import { sizeText, type Table } from '../table.ts';
import { fewLarge } from './first-mirror.ts';

const NEAR_BYTES = 2_100_000;

/** One workbook of about 2 MB changes in a repository of 2 GiB. */
export async function* change(bench: Bench): AsyncGenerator<Table> {
  const [dropped, inGit] = [await bench.serve(fewLarge(bench)), await bench.serve(fewLarge(bench, true))];
  const nearest = ({ files }: BenchService): BenchFile =>
    files.toSorted(
      (a, b) => Math.abs(a.sizeBytes - NEAR_BYTES) - Math.abs(b.sizeBytes - NEAR_BYTES),
    )[0] as BenchFile;
  const [file, fileInGit] = [nearest(dropped), nearest(inGit)];
  const digests = (areListed: boolean) => () => dropped.set({ digests: areListed });
  const contenders: Contender[] = [
    await pullerOf(
      bench,
      'workbook-mirror, with digests in the list',
      dropped,
      () => [file],
      {},
      digests(true),
    ),
    await pullerOf(bench, 'workbook-mirror, without digests', dropped, () => [file], {}, digests(false)),
    await pullerOf(bench, 'workbook-mirror, Git repository, content: auto', inGit, () => [fileInGit]),
    await pullerOf(bench, 'workbook-mirror, Git repository, content: workbooks', inGit, () => [fileInGit], {
      CONTENT: 'workbooks',
    }),
    await scriptOf(bench, dropped, 'script: curl | bsdtar, sync -f'),
  ];
  const rows = await compare(bench.options.runs, contenders, async () => {
    await dropped.change(0, [file.path]);
    await inGit.change(0, [fileInGit.path]);
  });
  yield {
    title: `Change of one workbook of ${sizeText(file.sizeBytes)} among ${dropped.files.length} (${dropped.data.name})`,
    rows,
    notes: [
      'Ours: a running daemon, from SIGHUP to the log line target.pulled, both lists included; its peak memory.',
    ],
  };
}

/** The mirror that an operator would write, which downloads everything. */
async function scriptOf(bench: Bench, service: BenchService, name: string): Promise<Contender> {
  const directory = await bench.place('script');
  return {
    name,
    needs: ['curl', 'jq', 'bsdtar'],
    run: () => countedBytes(service, () => bash('mirror.sh', service.baseUrl, directory, 'flush')),
    after: () => empty(join(directory, 'new')),
  };
}

/** Some files of a large tree change: our pull and publish, beside tools that publish a local tree. */
export async function* publish(bench: Bench): AsyncGenerator<Table> {
  const { isQuick } = bench.options;
  // In Git, so that the whole archive is downloaded. The largest one is stored: the fake service deflates all its files at once.
  const treeOf = (filesEach: number, mostBytes: number): DataSet =>
    dataSet(`${filesEach} files`, { filesEach, mostBytes, isGit: true, isCompressible: filesEach < 100_000 });
  yield* changesOf(bench, treeOf(isQuick ? 500 : 10_000, 40 * 1024), isQuick ? [1, 100] : [1, 10, 1000]);
  if (!isQuick) yield* changesOf(bench, treeOf(100_000, 4 * 1024), [1]);
}

async function* changesOf(bench: Bench, data: DataSet, counts: readonly number[]): AsyncGenerator<Table> {
  const service = await bench.serve(data);
  const { files } = service;
  const tree = await bench.place('tree');
  await writeTree(tree, service);
  let changed: readonly BenchFile[] = [];
  const contenders = [
    await pullerOf(bench, 'workbook-mirror: download, unpack, compare, publish', service, () => changed),
    await scriptOf(bench, service, 'script: download, unpack, swap'),
    ...(await publishers(bench, tree, () => changed)),
  ];
  for (const count of counts) {
    const rows = await compare(bench.options.runs, contenders, async () => {
      changed = files.filter((_, index) => index % Math.floor(files.length / count) === 0).slice(0, count);
      await service.change(
        0,
        changed.map(({ path }) => path),
      );
      await writeTree(tree, service, changed);
    });
    yield {
      title: `Publish ${count} changed of ${files.length} files`,
      rows,
      notes: [
        'Contenders with a "local tree" get it unpacked on the same disk: they neither download nor unpack. All are flushed.',
        'They do not remove the previous tree.',
      ],
    };
  }
}

/** Tools that publish an unpacked tree on the same disk; each begins with the result of its last run. */
function publishers(bench: Bench, tree: string, changed: () => readonly BenchFile[]): Promise<Contender[]> {
  const ways: readonly (readonly [name: string, way: string, needs: readonly Tool[]])[] = [
    ['local tree: cp -al, replace what changed, swap', 'link', []],
    ['local tree: rsync --link-dest, swap', 'rsync', ['rsync']],
  ];
  return Promise.all(
    ways.map(async ([name, way, needs]): Promise<Contender> => {
      const directory = await bench.place(way);
      await mkdir(directory);
      await cp(tree, join(directory, 'published'), { recursive: true, preserveTimestamps: true });
      const run = (): ReturnType<typeof measureFlushed> => {
        const paths = changed().map(({ path }) => `${path}\0`);
        const args = [peer('publish.sh'), way, tree, directory];
        return measureFlushed({ program: 'bash', args, input: paths.join('') }, directory);
      };
      return { name, needs, run };
    }),
  );
}
